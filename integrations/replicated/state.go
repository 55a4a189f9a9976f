package replicated

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// ownKeyspace has what the node itself keeps in the state.
const ownKeyspace = "replicated"

var appliedKey = []byte("applied")

// state is a Brock store with the effects of the log up to applied. Only the machine writes to it.
type state struct {
	number   uint64
	db       *brock.DB
	own      *brock.Keyspace
	named    sync.Map       // of *brock.Keyspace by name: those that were asked for; none goes away
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

// openState opens a state. After a power loss it may lack the newest commands; the log repeats them.
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
	// Invariant: the newest version is the index of the last command, or keyspaces were made since.
	// These have no index below which a command can be missing: see makeKeyspace.
	if v := s.db.Version(); v < s.applied.index {
		return fmt.Errorf("replicated: version %d, applied %d: %w", v, s.applied.index, brock.ErrCorrupt)
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

// keyspace returns a keyspace of the user by its name; nil: there is none.
func (s *state) keyspace(name string) *brock.Keyspace {
	if name == "" {
		return s.db.Default()
	}
	if k, known := s.named.Load(name); known {
		return k.(*brock.Keyspace)
	}
	for k := range s.db.Keyspaces() {
		if k.Name() == name && name != ownKeyspace {
			s.named.Store(name, k)
			return k
		}
	}
	return nil
}

// hasKeyspaces reports whether all operations can be done. Who has sent them has made the keyspaces.
func (s *state) hasKeyspaces(operations []Operation) bool {
	for i := range operations {
		if s.keyspace(operations[i].Keyspace) == nil {
			return false
		}
	}
	return true
}

// holds reports whether a condition holds. Where there is no keyspace there are no keys.
func (s *state) holds(c *Condition) (holds bool, err error) {
	k := s.keyspace(c.Keyspace)
	if k == nil {
		return c.Count == 0 && (c.Range || c.Version == 0), nil
	}
	err = s.db.View(func(txn *brock.Txn) error {
		if txn = txn.In(k); c.Range {
			holds, err = holdsRange(txn, c)
			return err
		}
		item, err := txn.Get(c.Key)
		if errors.Is(err, brock.ErrKeyNotFound) {
			holds = c.Version == 0
			return nil
		}
		holds = err == nil && item.Version() == c.Version
		return err
	})
	return holds, err
}

// holdsRange walks at most Count keys and one. Deletes are found by the count: nobody can say how long
// the store remembers them.
func holdsRange(txn *brock.Txn, c *Condition) (bool, error) {
	count := 0
	for item, err := range txn.Items(brock.IteratorOptions{Lower: c.Key, Upper: c.Upper, KeysOnly: true, Prefetch: -1}) {
		if err != nil {
			return false, err
		}
		if count++; count > c.Count || item.Version() > c.Version {
			return false, nil
		}
	}
	return count == c.Count, nil
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
