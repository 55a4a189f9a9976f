package brock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/view"
)

// Snapshot is one version of the store, until Close. Any number of goroutines may use it: each View
// or Begin is a transaction of its own. Whatever is committed, compacted, collected or dropped
// meanwhile, it reads the same, and copies of it have the same.
//
// An open Snapshot keeps the memory and the disk space of what is replaced meanwhile, as a
// transaction does that is as old: Metrics and Events.LongReader tell of it. Close it. After that
// its methods return ErrTxnDone, and after the store was closed ErrClosed. One that nobody can close
// any more is closed when the garbage collector finds it: see Events.Leak.
type Snapshot struct {
	db      *DB // nil: its methods return ErrClosed
	version uint64
	made    time.Time
	cleanup runtime.Cleanup
	moment  *follow.Moment // what copies need; nil after refused
	refused error          // why there are no copies

	mu  sync.Mutex // guards:
	pin *view.Pin  // nil once it is closed
}

// fork returns another pin of the version.
func (s *Snapshot) fork() (*view.Pin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The pin must not be released in the middle of this.
	if s.pin == nil {
		return nil, ErrTxnDone
	}
	return s.pin.Fork(), nil
}

// freeze is follow.Source.Freeze as of the Snapshot.
func (s *Snapshot) freeze(ctx context.Context) (set checkpoint.Fileset, release func(), err error) {
	if s.refused != nil {
		return set, nil, s.refused
	}
	pin, err := s.fork()
	if err != nil {
		return set, nil, err
	}
	set, release, err = s.db.source.FreezeAt(ctx, pin, s.moment)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(err, ErrKey) {
		err = fmt.Errorf("the snapshot is older than the data keys: make another one: %w", err)
	}
	return set, release, err
}
