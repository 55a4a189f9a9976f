package view

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/jobs"
	"github.com/brockdb/brock/internal/layout"
)

// Config is what a Set needs.
type Config struct {
	Now   func() time.Time // tells since when a View is replaced
	Coder *codec.Coder     // of compressed values
	// Jobs runs the release of what the last reader has let go of, so that no
	// reader waits for it; nil: that reader does it.
	Jobs *jobs.Pool
}

// Set owns the current View and those that a reader may still hold. Readers
// take no lock: they pin a View. Writers install the next one under the Set's
// mutex, which is held over assignments only. Its methods may be called from
// many goroutines.
type Set struct {
	Floors Floors // history below them may be gone

	cfg       Config
	current   atomic.Pointer[View]
	published atomic.Uint64 // newest visible version
	closed    atomic.Bool
	readers   readers
	pins      sync.Pool  // *Pin with a slot, idle
	tidy      *jobs.Task // Reclaim; nil without Jobs

	releasing sync.Mutex // held while what no View holds any more is released; taken before mu

	mu      sync.Mutex // guards the holders of all resources, and:
	last    uint64     // number of the newest View
	retired []retiredView
	kept    map[uint64]bool // numbers of Views that Pin.Keep holds
	changed chan struct{}   // closed and replaced by Wake
}

type retiredView struct {
	view  *View
	since time.Time
}

// NewSet returns a Set without a View: Install the first one before all else.
func NewSet(cfg Config, layout *layout.Layout) *Set {
	s := &Set{cfg: cfg, kept: make(map[uint64]bool), changed: make(chan struct{})}
	s.Floors.init(layout)
	if cfg.Jobs != nil {
		s.tidy = cfg.Jobs.Task(jobs.Cleanup, "release", func(context.Context) error { s.Reclaim(); return nil })
	}
	return s
}

// Current is the current View. It may be looked at, but its files may go at any
// time: to read them, Acquire or Hold.
func (s *Set) Current() *View { return s.current.Load() }

// Visible is the newest published version.
func (s *Set) Visible() entry.Version { return entry.Version(s.published.Load()) }

// Publish makes everything up to v visible.
func (s *Set) Publish(v entry.Version) { s.published.Store(uint64(v)) }

// Install makes a View current that was made by change from the one that is
// current until then. It returns the new one.
func (s *Set) Install(change func(next *View)) *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := new(View)
	if now := s.current.Load(); now != nil {
		next = now.Clone()
	}
	change(next)
	s.installLocked(next)
	return next
}

// Replace makes next the current View, whatever was current before.
func (s *Set) Replace(next *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installLocked(next)
}

func (s *Set) installLocked(next *View) {
	// Counted before the old View can be let go of: what both hold stays open.
	next.each(func(r *shared) { r.views++ })
	s.last++
	next.ID = s.last
	if old := s.current.Swap(next); old != nil {
		s.retired = append(s.retired, retiredView{old, s.cfg.Now()})
	}
}

// Await returns the current View, and a channel that the next Wake closes.
func (s *Set) Await() (now *View, woken <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Load(), s.changed
}

// Wake has those who wait, as for work to make room, look again.
func (s *Set) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Reclaim releases what no View holds any more. When it returns, that has gone,
// also what another call has found.
func (s *Set) Reclaim() {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	for _, fn := range s.unheld() {
		fn()
	}
}

// unheld lets go of the retired Views that no reader holds, and returns what
// to call, without the mutex, to close the resources that nothing holds any more.
func (s *Set) unheld() (release []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.retired) == 0 {
		return nil
	}
	held := s.readers.holds()
	s.retired = slices.DeleteFunc(s.retired, func(r retiredView) bool {
		if held[r.view.ID] || s.kept[r.view.ID] {
			return false
		}
		release = append(release, r.view.drop()...)
		return true
	})
	return release
}

// reclaimSoon releases what the last reader of an old View has let go of, on a
// goroutine that no reader waits for, as long as there is one.
func (s *Set) reclaimSoon() {
	if s.tidy == nil || s.closed.Load() {
		s.Reclaim()
		return
	}
	s.tidy.Kick()
}

// take makes the current View that of an announced slot, which then holds it (a
// hazard pointer: Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free
// Objects", IEEE TPDS 2004).
//
// Invariant: a slot announces, then names a View, and only then looks whether
// that is current. So one who has replaced a View, and then finds no busy slot that
// names it, knows that nobody uses it or ever will.
func (s *Set) take(slot *readerSlot) *View {
	for {
		v := s.current.Load()
		if slot.view.Load() == v.ID { // named since before it was seen to be current
			return v
		}
		slot.view.Store(v.ID)
		if s.current.Load() == v {
			return v
		}
	}
}

// leave ends what was announced in a slot. Its reader may have been the last to
// hold a replaced View: then that is released.
func (s *Set) leave(slot *readerSlot) {
	view := slot.view.Load()
	slot.version.Store(0)
	if view != s.current.Load().ID {
		s.reclaimSoon()
	}
}

// Close refuses new readers; those that there are go on. It reports whether this
// is the first call.
func (s *Set) Close() bool { return !s.closed.Swap(true) }

// Closed reports whether Close was called.
func (s *Set) Closed() bool { return s.closed.Load() }

// Oldest returns the oldest version that any reader may see, or bound if none is
// older. The caller loads the bound first.
func (s *Set) Oldest(bound entry.Version) entry.Version { return s.readers.oldest(bound) }

// Readers counts the Pins that hold a version.
func (s *Set) Readers() int {
	n, _, _, _ := s.readers.active()
	return n
}

// Memtables counts the memtables that the current View or an older one holds,
// and their bytes.
func (s *Set) Memtables() (tables int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[*Table]bool)
	count := func(v *View) {
		for _, m := range v.Tables {
			if !seen[m] {
				seen[m] = true
				tables, bytes = tables+1, bytes+m.Bytes()
			}
		}
	}
	count(s.current.Load())
	for _, r := range s.retired {
		count(r.view)
	}
	return tables, bytes
}
