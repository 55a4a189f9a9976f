package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// Snapshots hold the store as of one version, for copies of it, while it goes on. They pin Views at
// the moment at which a memtable has become a run.
type Snapshots struct {
	*state
	work    *Worker
	copying *copying

	mu      sync.Mutex       // guards pin and err of all points, and:
	waiting []*snapshotPoint // those whose last memtable is not flushed yet
}

// snapshotPoint is the state that a copy of the store has: its last version, and the View that has
// everything up to this version in runs, and nothing newer.
type snapshotPoint struct {
	version entry.Version
	then    *layout.Layout // as of the moment at which that was the newest version
	milli   int64          // that moment, in Unix milliseconds
	last    *view.Table    // memtable that is flushed last; nil if nothing was to be flushed
	pin     *view.Pin      // of that View, once it is installed
	err     error          // why there is no pin
}

// During calls fn with the layout as of one version, which was the newest one at a moment of this
// call; milli is that moment, in Unix milliseconds. The files of the layout and the keyring stay as
// they are until fn returns.
func (s *Snapshots) During(ctx context.Context, fn func(l *layout.Layout, milli int64) error) error {
	return s.KeepKeys(ctx, func() error { return s.duringPoint(ctx, fn) })
}

// KeepKeys calls fn, which makes a copy. The data keys stay as they are until fn returns.
func (s *Snapshots) KeepKeys(ctx context.Context, fn func() error) error {
	if err := s.copying.beginCopy(ctx); err != nil {
		return err
	}
	defer s.tasks.kickAll() // tryFinishRewriting may wait for the end of this copy
	defer s.copying.endCopy()
	return fn()
}

func (s *Snapshots) duringPoint(ctx context.Context, fn func(l *layout.Layout, milli int64) error) error {
	k, l, err := s.makePoint(ctx)
	if err != nil {
		return err
	}
	// A copy may take hours. What is not part of it must not stay in memory or on the disk so long.
	_, release := k.pin.HoldPart(func(part *view.View) {
		part.Tables = nil
		part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return l.Segment(num) == nil })
	})
	defer s.views.ReclaimViews()
	defer release()
	return fn(l, k.milli)
}

// makePoint makes a point, and returns it with the layout as of its version. The caller releases
// its pin.
func (s *Snapshots) makePoint(ctx context.Context) (*snapshotPoint, *layout.Layout, error) {
	for {
		k := new(snapshotPoint)
		if err := s.cfg.Exclusive(ctx, func() error { return s.beginPoint(k) }); err != nil {
			return nil, nil, err
		}
		err := s.work.awaitView(ctx, func(*view.View) bool { return s.isMade(k) })
		if err == nil {
			err = k.err
		}
		if err != nil {
			s.dropPoint(k)
			return nil, nil, err
		}
		// The View was pinned some time after the point. What the layout knows of later commits
		// goes.
		l, whole, err := k.pin.View().Layout.AsOf(k.version, k.then, k.milli)
		if err == nil && whole {
			return k, l, nil
		}
		k.pin.Release()
		if err != nil {
			return nil, nil, err
		}
		// A keyspace was dropped meanwhile.
	}
}

// beginPoint seals what is in memory. It runs in the place of a commit leader, so that
// no commit is half before the point.
func (s *Snapshots) beginPoint(k *snapshotPoint) error {
	if err := s.work.writer.sealAny(); err != nil {
		return err
	}
	k.version, k.milli = s.views.Visible(), s.cfg.Now().UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	// With the mutex held: a memtable that this View still has is flushed later, and pinFlushed
	// then waits for the mutex. So it can't miss this point.
	v := s.views.Current()
	k.then = v.Layout
	if len(v.Tables) > 1 {
		// Memtables are flushed oldest first. After the newest sealed one, all of the point is in
		// runs.
		k.last = v.Tables[1]
		s.waiting = append(s.waiting, k)
		return nil
	}
	k.pin, k.err = s.views.Hold()
	return k.err
}

// pinFlushed pins the View for those who wait for a memtable that an edit has flushed. So no run
// has anything that was committed after a point. (A transaction that bypasses the memtables has
// flushed them before it commits.)
func (s *Snapshots) pinFlushed(by *view.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(k *snapshotPoint) bool {
		if !slices.Contains(by.Tables, k.last) {
			return false
		}
		k.pin, k.err = s.views.Hold()
		return true
	})
}

// isMade reports whether the point has its pin or its error.
func (s *Snapshots) isMade(k *snapshotPoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return k.pin != nil || k.err != nil
}

// dropPoint ends a point that nobody waits for any more.
func (s *Snapshots) dropPoint(k *snapshotPoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *snapshotPoint) bool { return other == k })
	// The flush may have come between the end of the wait and the lock.
	if k.pin != nil {
		k.pin.Release()
	}
}
