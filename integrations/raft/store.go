package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

var (
	_ raft.LogStore               = (*Store)(nil)
	_ raft.MonotonicLogStore      = (*Store)(nil)
	_ raft.CommitTrackingLogStore = (*Store)(nil)
	_ raft.StableStore            = (*Store)(nil)
)

// DefaultGroup is the name of a group whose Options name none.
const DefaultGroup = "raft"

// MaxGroup is the greatest length of the name of a group, in bytes.
const MaxGroup = brock.MaxKeyspaceName - len(stableSuffix)

// What the names of a group's keyspaces end in.
const (
	logSuffix    = "/log"
	stableSuffix = "/stable"
)

// Options of a Store. The zero value is good.
type Options struct {
	// Group names the group, and its keyspaces: NAME/log and NAME/stable. It has at most MaxGroup
	// bytes; "" = DefaultGroup.
	Group string

	// AllowGaps takes entries of any index, also in place of others, as raft-boltdb does, and
	// deletes any range. Then IsMonotonic returns false, and raft leaves old entries behind when it
	// restores a snapshot. Without it the log has no gap, ever: StoreLogs returns ErrGap.
	AllowGaps bool

	// MissingKeyError makes Get and GetUint64 return ErrKeyNotFound for a key that was never set,
	// as those of raft-boltdb do. Without it they return nothing and 0, as raft.StableStore says.
	MissingKeyError bool
}

// Store is the log and the stable keys of one raft group. Its methods may be called at once.
type Store struct {
	db      *brock.DB
	owned   bool // Close closes db
	log     *brock.Keyspace
	stable  *brock.Keyspace
	opts    Options
	closed  atomic.Bool
	first   atomic.Uint64 // index of the first entry; 0 = none
	last    atomic.Uint64 // index of the last entry; 0 = none
	staged  atomic.Uint64 // commit index that the next entries will have; 0 = none
	release func()        // gives the group up for other Stores

	mu    sync.Mutex // held while the log is changed; guards:
	batch *brock.Batch
	room  []byte // memory for records and keys
}

// roomKept is how much memory a Store keeps for the next append.
const roomKept = 1 << 20

// group is what only one Store at a time may be of: it knows the ends of its log.
type group struct {
	db   *brock.DB
	name string
}

// openGroups has the groups of all open Stores of this process.
var openGroups sync.Map // of group

// TuneOptions returns options of a store that holds little beside raft logs, in the directory dir:
// those that Open uses. Small files give their space back soon after the head of a log was deleted.
func TuneOptions(dir string) brock.Options {
	o := brock.Options{Dir: dir, MemoryLimit: 64 << 20}
	o.Tuning.MemtableSize = 8 << 20
	o.Tuning.SegmentSize = 64 << 20
	return o
}

// Open opens the store in the directory dir, which it creates if it is not there, and the group in
// it. The directory belongs to this Store alone; Close closes it. Errors are those of brock.Open and
// New.
func Open(dir string, o Options) (*Store, error) { return OpenStore(TuneOptions(dir), o) }

// OpenStore is Open with options of your own for the store: a key for encryption, a limit of disk
// space, a Logger. What is written is Synced, whatever they say.
func OpenStore(store brock.Options, o Options) (*Store, error) {
	db, err := brock.Open(store)
	if err != nil {
		return nil, fmt.Errorf("raftstore: %w", err)
	}
	s, err := New(db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.owned = true
	return s, nil
}

// New opens a group within a store that is open, and creates it if it is not there. Other groups and
// the program's own keyspaces may lie in the same store. Close leaves the store open; close it after
// its groups. One group can be open once: New returns ErrGroupInUse for the second Store of it.
//
// It returns ErrGap if the log has a gap and AllowGaps is not set, and a *RecordError if what is
// there is no group. A store that is open ReadOnly needs to have the group; for one that follows
// another process New returns brock.ErrUnsupported.
func New(db *brock.DB, o Options) (*Store, error) {
	if db == nil {
		return nil, errNilDB
	}
	if o.Group == "" {
		o.Group = DefaultGroup
	}
	if len(o.Group) > MaxGroup {
		return nil, &brock.OptionError{Field: "Group", Reason: fmt.Sprintf("is longer than %d bytes", MaxGroup)}
	}
	if db.Options().Mode == brock.Follow {
		return nil, fmt.Errorf("raftstore: a store that follows another process: %w", brock.ErrUnsupported)
	}
	g := group{db, o.Group}
	if _, used := openGroups.LoadOrStore(g, nil); used {
		return nil, fmt.Errorf("%w: %q", ErrGroupInUse, o.Group)
	}
	s := &Store{db: db, opts: o, release: sync.OnceFunc(func() { openGroups.Delete(g) })}
	if err := s.load(); err != nil {
		s.release()
		return nil, fmt.Errorf("raftstore: open group %q: %w", o.Group, err)
	}
	return s, nil
}

// load opens the keyspaces, and reads the header and the ends of the log.
func (s *Store) load() (err error) {
	var keep []brock.KeyspaceOptions
	if s.db.Options().Mode == brock.ReadWrite {
		// Entries stay where the journal has them, and only their places go to the tree: nearly all
		// of them are deleted before a compaction would have to move them once more.
		keep = []brock.KeyspaceOptions{{ValueThreshold: logThreshold}}
	}
	if s.log, err = s.db.Keyspace(s.opts.Group+logSuffix, keep...); err != nil {
		return err
	}
	if s.stable, err = s.db.Keyspace(s.opts.Group + stableSuffix); err != nil {
		return err
	}
	s.batch = s.log.NewBatch()
	if err := s.readEnds(); err != nil {
		return err
	}
	if err := s.checkHeader(); err != nil {
		return err
	}
	staged, err := s.GetCommitIndex()
	s.staged.Store(staged)
	return err
}

// logThreshold is the ValueThreshold of logs.
const logThreshold = 128

// headerKey is the key of the header, the least one in its keyspace.
var headerKey = []byte{}

// checkHeader reads the header, and writes the one that the options ask for.
func (s *Store) checkHeader() error {
	b, err := s.log.Get(headerKey)
	fresh := errors.Is(err, brock.ErrKeyNotFound)
	if err != nil && !fresh {
		return err
	}
	gaps := false
	if fresh {
		// The header is the first thing written. Without it these are entries of somebody else.
		if s.last.Load() != 0 {
			return &RecordError{Group: s.opts.Group, Reason: "it is missing"}
		}
	} else {
		var refused *RecordError
		if gaps, refused = decodeHeader(b); refused != nil {
			refused.Group = s.opts.Group
			return refused
		}
	}
	if gaps && !s.opts.AllowGaps {
		if err := s.findGap(); err != nil {
			return err
		}
	}
	// Who only reads appends nothing that the header would have to allow.
	if !fresh && gaps == s.opts.AllowGaps || s.db.Options().Mode != brock.ReadWrite {
		return nil
	}
	s.batch.Reset()
	if err := s.batch.Set(headerKey, encodeHeader(s.opts.AllowGaps)); err != nil {
		return err
	}
	return s.commit()
}

// findGap returns ErrGap if an index between the first and the last one is missing.
func (s *Store) findGap() error {
	return s.log.View(func(txn *brock.Txn) error {
		next := s.first.Load()
		o := brock.IteratorOptions{Lower: appendKey(nil, 0), KeysOnly: true}
		for item, err := range txn.Items(o) {
			if err != nil {
				return err
			}
			index, err := s.indexOf(item.Key())
			if err != nil {
				return err
			}
			if index != next {
				return fmt.Errorf("%w: entry %d is missing", ErrGap, next)
			}
			next++
		}
		return nil
	})
}

// readEnds reads the first and the last index from the store.
func (s *Store) readEnds() error {
	return s.log.View(func(txn *brock.Txn) error {
		ends := [2]uint64{}
		for i, find := range []func(lo, hi []byte) (*brock.Item, error){txn.First, txn.Last} {
			item, err := find(appendKey(nil, 0), nil)
			if errors.Is(err, brock.ErrKeyNotFound) {
				break
			}
			if err != nil {
				return err
			}
			if ends[i], err = s.indexOf(item.Key()); err != nil {
				return err
			}
		}
		s.first.Store(ends[0])
		s.last.Store(ends[1])
		return nil
	})
}

// DB returns the store that the group lies in: for backups, metrics, and keyspaces of your own. That
// of Open is closed by Close.
func (s *Store) DB() *brock.DB { return s.db }

// Close ends the use of the group, and closes the store if Open has opened it. Other methods return
// brock.ErrClosed from then on. Closing again does nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	// A change that runs ends first: the next Store of the group must see all that it did.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch.Reset()
	s.release()
	if !s.owned {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("raftstore: %w", err)
	}
	return nil
}

// lockOpen locks mu. It returns brock.ErrClosed, without the lock, if the Store is closed.
func (s *Store) lockOpen() error {
	s.mu.Lock()
	if s.closed.Load() {
		s.mu.Unlock()
		return brock.ErrClosed
	}
	return nil
}

// Drop deletes the group with all that it has, durably, and closes the Store. If it fails part of
// the group may be left: New and Drop it again.
func (s *Store) Drop(ctx context.Context) error {
	if err := s.lockOpen(); err != nil {
		return err
	}
	err := s.log.Drop(ctx)
	if err == nil {
		err = s.stable.Drop(ctx)
	}
	s.mu.Unlock()
	return errors.Join(err, s.Close())
}
