package replicated

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// ownKeyspace has what the node itself keeps in the state.
const ownKeyspace = "replicated"

var appliedKey = []byte("applied")

// firstCommand is the least index that a command can have: raft's first two entries are the
// configuration and that of the first leader. Making the keyspace takes a version below it.
const firstCommand = 3

// errBehind is a state that has lost its newest commits, and can't take them once more: Brock gives no
// version twice that a power loss may have taken. It is made anew from the checkpoint.
var errBehind = errors.New("replicated: the state has lost its newest versions")

// state is a Brock store with the effects of the log up to applied. Only the machine writes to it.
type state struct {
	number   uint64
	db       *brock.DB
	own      *brock.Keyspace
	clock    *atomic.Uint64 // of the group, in milliseconds; the store's Options.Now
	applied  applied        // the machine's
	sessions sessions       // the machine's

	users   int             // who reads it; guarded by Node.mu
	gone    context.Context // ends when another state has taken its place
	replace func()          // ends gone
	idle    chan struct{}   // closed when it was replaced, and nobody reads it
}

// stateDir, logDir and checkpointDir are the directories of a node.
func (o *Options) stateDir(number uint64) string {
	return filepath.Join(o.Dir, fmt.Sprintf("state-%d", number))
}

func (o *Options) logDir() string { return filepath.Join(o.Dir, "raft") }

func (o *Options) checkpointDir(name string) string {
	return filepath.Join(o.Dir, "checkpoint-"+name)
}

// openState opens a state. It returns errBehind if the state can't go on where it is.
func openState(o *Options, number uint64) (s *state, err error) {
	s = &state{number: number, clock: new(atomic.Uint64), sessions: newSessions(), idle: make(chan struct{})}
	s.gone, s.replace = context.WithCancel(context.Background())
	if s.db, err = brock.Open(o.storeOptions(o.stateDir(number), s.clock)); err != nil {
		return nil, err
	}
	if err = s.load(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func (s *state) load() (err error) {
	if s.own, err = s.db.Keyspace(ownKeyspace); err != nil {
		return err
	}
	b, err := s.own.Get(appliedKey)
	if err == nil {
		s.applied, err = decodeApplied(b)
	}
	if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
		return err
	}
	s.clock.Store(s.applied.clock)
	// Invariant: the newest version is the index of the last command. It is above it after a power
	// loss that took Buffered commits but not an edit of the manifest that knew of them.
	if v := s.db.Version(); v != s.applied.index && (s.applied.index != 0 || v >= firstCommand) {
		return fmt.Errorf("%w: version %d, applied %d", errBehind, v, s.applied.index)
	}
	var stored []*session
	err = s.own.View(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("s")) {
			if err != nil {
				return err
			}
			value, err := item.Value()
			if err != nil {
				return err
			}
			x, err := decodeSession(item.Key(), value)
			if err != nil {
				return err
			}
			stored = append(stored, x)
		}
		return nil
	})
	s.sessions.load(stored)
	return err
}

// versionOf returns the version of a key in the state; 0 if it is absent.
func (s *state) versionOf(key []byte) (version uint64, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, brock.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			version = item.Version()
		}
		return err
	})
	return version, err
}

// copyStore makes the store in the directory to of the one in from, by links where it can.
func (o *Options) copyStore(ctx context.Context, from, to string) (err error) {
	s := o.storeOptions(from, new(atomic.Uint64))
	s.Mode = brock.ReadOnly
	db, err := brock.Open(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Checkpoint(ctx, to)
}

// makeState makes the state with this number of a checkpoint, or an empty one if from is nil, and
// opens it. It is durable, but nothing names it yet.
func (o *Options) makeState(ctx context.Context, number uint64, from *header) (*state, error) {
	if err := removeAll(o.fs(), o.stateDir(number)); err != nil {
		return nil, err
	}
	if from != nil {
		if err := o.copyStore(ctx, o.checkpointDir(from.name), o.stateDir(number)); err != nil {
			return nil, err
		}
	}
	s, err := openState(o, number)
	if err != nil {
		return nil, err
	}
	// Invariant: what is served is what the header promised.
	if from != nil && s.applied != from.applied {
		err := fmt.Errorf("replicated: checkpoint %s has entry %d, not %d: %w", from.name, s.applied.index, from.applied.index, brock.ErrCorrupt)
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// fs is the file system of the node.
func (o *Options) fs() vfs.FS {
	if o.Store.FS != nil {
		return o.Store.FS
	}
	return vfs.OS()
}

// removeAll removes a directory with the files in it. One that is not there is no error.
func removeAll(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		if _, absent := fs.Stat(dir); absent != nil {
			return nil
		}
		return err
	}
	for _, name := range names {
		at := filepath.Join(dir, name)
		if info, err := fs.Stat(at); err == nil && info.IsDir {
			err = removeAll(fs, at)
			if err != nil {
				return err
			}
			continue
		}
		if err := fs.Remove(at); err != nil {
			return err
		}
	}
	return fs.Remove(dir)
}

// removeStray removes states and checkpoints that the record does not name: what a crash has left.
func (o *Options) removeStray(r *record) error {
	names, err := o.fs().List(o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := filepath.Join(o.Dir, name)
		stray := strings.HasPrefix(name, "state-") && at != o.stateDir(r.state) ||
			strings.HasPrefix(name, "checkpoint-") && (r.snapshot == nil || at != o.checkpointDir(r.snapshot.name))
		if !stray {
			continue
		}
		if err := removeAll(o.fs(), at); err != nil {
			return err
		}
	}
	return nil
}
