package view

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/version/layout"
)

// Set owns the current View and those that a reader may still hold. Readers take no lock: they pin
// a View. Writers install the next one under the Set's mutex, which is held over assignments only.
// Its methods may be called from many goroutines.
type Set struct {
	Floors Floors       // versions below which history may be gone
	Coder  *codec.Coder // decodes compressed values
	News   jobs.Bell    // rings when more is visible, or durable

	now       func() time.Time     // for the time at which a View was replaced
	current   atomic.Pointer[View] // what new readers take
	published atomic.Uint64        // newest visible version
	closed    atomic.Bool          // Close was called
	readers   readers              // slots of all Pins
	pins      sync.Pool            // idle *Pin, each with a slot
	lent      atomic.Int64         // bytes that all Pins lend
	tidy      *jobs.Task           // runs ReclaimViews; nil without a pool

	toldView uint64        // number of the View of the last report of a long reader; 0: none
	toldFor  time.Duration // for how long that View had been held

	releasing sync.Mutex // held while ReclaimViews calls release functions; locked before mu

	mu       sync.Mutex      // guards the holders of all resources, and:
	replaced []replacedView  // replaced Views that readers may still hold, oldest first
	kept     map[uint64]bool // numbers of Views that Pin.ReleaseLeaked holds
	changed  chan struct{}   // closed and replaced by WakeWatchers
}

// replacedView is a View that was replaced.
type replacedView struct {
	view  *View
	since time.Time // when it was replaced
}

// NewSet returns a Set without a View. Call Install before anything else. pool releases old Views in
// the background, so that no reader waits while files are closed and removed. nil: the last reader
// of a View does it.
func NewSet(now func() time.Time, pool *jobs.Pool, layout *layout.Layout) *Set {
	s := &Set{Coder: new(codec.Coder), now: now, kept: make(map[uint64]bool), changed: make(chan struct{})}
	s.Floors.FollowLayout(layout)
	if pool != nil {
		s.tidy = pool.Task(jobs.Cleanup, "release", func(context.Context) error { s.ReclaimViews(); return nil })
	}
	return s
}

// Current returns the current View, for its metadata. Don't read its files or memtables:
// they may be closed at any time. For that, use Acquire or Hold.
func (s *Set) Current() *View { return s.current.Load() }

// Visible is the newest published version.
func (s *Set) Visible() entry.Version { return entry.Version(s.published.Load()) }

// Publish makes everything up to v visible.
func (s *Set) Publish(v entry.Version) {
	s.published.Store(uint64(v))
	s.News.Ring()
}

// Install copies the current View, lets change modify the copy, and makes it the current
// View. It returns the copy.
func (s *Set) Install(change func(next *View)) *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, now := new(View), s.current.Load()
	if now != nil {
		next = now.Clone()
	}
	change(next)
	// Count the new holders before the old View can be released: what both have stays open.
	next.eachResource(func(r *shared) { r.views++ })
	// The number must be there before readers can load next: they store it in their slots.
	next.ID = 1
	if now != nil {
		next.ID = now.ID + 1
		s.replaced = append(s.replaced, replacedView{now, s.now()})
	}
	// A reader that is just taking the old View finds out: holdCurrent loads current again.
	s.current.Store(next)
	return next
}

// WatchView returns the current View, and a channel that the next WakeWatchers closes.
func (s *Set) WatchView() (now *View, woken <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Load(), s.changed
}

// WakeWatchers wakes the callers that wait on a channel of WatchView, for room on the disk, say.
// They look at the new View, and wait again if it does not help them.
func (s *Set) WakeWatchers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// All waiters at once: each looks for itself whether the change helps.
	close(s.changed)
	s.changed = make(chan struct{})
}

// ReclaimViews releases what no View holds any more. When it returns, that is closed and its
// files are removed, even if a concurrent call of ReclaimViews has done that.
func (s *Set) ReclaimViews() {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	for _, fn := range s.dropUnheld() {
		fn()
	}
}

// dropUnheld drops the replaced Views that no reader holds. It returns the release functions of the
// resources that nothing holds any more, for its caller to call without the mutex.
func (s *Set) dropUnheld() (release []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replaced) == 0 {
		return nil
	}
	// After the mutex is locked, no View is installed. A View that is replaced now can't be taken
	// any more, so a slot that does not name it now never will.
	held := make(map[uint64]bool)
	for _, slot := range s.readers.busySlots() {
		// A slot that has only announced itself names the View of its last reader. To hold that
		// a little longer does no harm.
		held[slot.view.Load()] = true
	}
	s.replaced = slices.DeleteFunc(s.replaced, func(r replacedView) bool {
		if held[r.view.ID] || s.kept[r.view.ID] {
			return false
		}
		release = append(release, r.view.dropHolder()...)
		return true
	})
	return release
}

// reclaimSoon has ReclaimViews run in the background. Without a pool, or after Close, it calls
// ReclaimViews itself.
func (s *Set) reclaimSoon() {
	if s.tidy == nil || s.closed.Load() {
		s.ReclaimViews()
		return
	}
	s.tidy.Kick()
}

// holdCurrent returns the current View, and makes the slot hold it. The slot must be busy. The slot
// is a hazard pointer (Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects",
// IEEE TPDS 2004).
//
// Invariant: a reader first announces itself, then stores the View's number in its slot, then
// checks that this View is still current. So once a View has been replaced and no busy slot has its
// number, no reader uses it, and none will.
func (s *Set) holdCurrent(slot *readerSlot) *View {
	for {
		v := s.current.Load()
		// The slot still has this number of the last time: no store, which would cost more than the
		// loads. The number was stored before current was loaded.
		if slot.view.Load() == v.ID {
			return v
		}
		slot.view.Store(v.ID)
		// Else it was replaced between the two, and whoever released Views may not have seen the
		// slot: try again.
		if s.current.Load() == v {
			return v
		}
	}
}

// releaseSlot makes a slot idle. If it held a replaced View, it may have been the last to do so:
// then the View is released.
func (s *Set) releaseSlot(slot *readerSlot) {
	view := slot.view.Load()
	// Idle first, then look at current: if a View is installed between the two, its installer sees
	// the idle slot when it releases Views. In the other order nobody might.
	slot.version.Store(0)
	if view != s.current.Load().ID {
		s.reclaimSoon()
	}
}

// Close makes Acquire and Hold return ErrClosed. Readers that have a Pin go on. It reports whether
// this is the first call.
func (s *Set) Close() bool { return !s.closed.Swap(true) }

// Closed reports whether Close was called.
func (s *Set) Closed() bool { return s.closed.Load() }

// OldestVersion returns the oldest version that any reader may need, or bound if none is older.
// Load bound before the call: readers that begin later don't need anything older.
func (s *Set) OldestVersion(bound entry.Version) entry.Version {
	for v := range s.readers.busySlots() {
		bound = min(bound, v)
	}
	return bound
}

// CountMemtables counts the memtables that are in memory, because the current View or one that
// readers hold has them, and their bytes.
func (s *Set) CountMemtables() (tables int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A table counts once, although several Views have it.
	seen := make(map[*Table]bool)
	for _, r := range append(s.replaced[:len(s.replaced):len(s.replaced)], replacedView{view: s.current.Load()}) {
		for _, m := range r.view.Tables {
			seen[m] = true
		}
	}
	for m := range seen {
		bytes += m.Bytes()
	}
	return len(seen), bytes
}
