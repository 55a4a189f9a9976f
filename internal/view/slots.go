package view

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
)

// readerSlot is where one reader at a time announces what it holds. A slot has a
// cache line of its own, so that readers on different cores share nothing.
type readerSlot struct {
	version atomic.Uint64  // 1 + a version: nothing the reader may see is older; 0 = idle
	view    atomic.Uint64  // the View that the reader holds, or one that an earlier reader held
	origin  atomic.Uintptr // program counter where the last one that said so began
	_       [104]byte
}

// noVersion is announced by those who need a View to stay, but no history:
// background work and the commit leader.
const noVersion = entry.MaxVersion

// announce says that a reader begins, which will see version and what is newer.
func (s *readerSlot) announce(version entry.Version) { s.version.Store(uint64(version) + 1) }

// reads returns the announced version, and whether the slot is in use.
func (s *readerSlot) reads() (version entry.Version, busy bool) {
	v := s.version.Load()
	return entry.Version(v - 1), v != 0
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

// readers knows every reader's slot. Readers only store to their own; one who
// releases a View or drops versions looks at all.
type readers struct {
	pool   sync.Pool // *Pin with a slot
	leaked func()    // called when the garbage collector has found a Pin that was leaked

	mu    sync.Mutex // guards:
	slots []*readerSlot
	free  []*readerSlot
}

// reserve returns a slot that is never given back.
func (r *readers) reserve() *readerSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := new(readerSlot)
	r.slots = append(r.slots, s)
	return s
}

// pin returns an idle Pin that owns a slot.
func (r *readers) pin() *Pin {
	if p, _ := r.pool.Get().(*Pin); p != nil {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var s *readerSlot
	if n := len(r.free); n > 0 {
		s, r.free = r.free[n-1], r.free[:n-1]
	} else {
		s = new(readerSlot)
		r.slots = append(r.slots, s)
	}
	p := &Pin{slot: s}
	// A Pin that the pool lets go gives its slot back; one that is leaked while
	// it is held keeps it, and what it pins, until the collector finds it.
	runtime.AddCleanup(p, r.recycle, s)
	return p
}

func (r *readers) recycle(s *readerSlot) {
	leaked := s.version.Swap(0) != 0
	r.mu.Lock()
	r.free = append(r.free, s)
	r.mu.Unlock()
	if leaked {
		r.leaked()
	}
}

// oldest returns the oldest version that any reader has announced, or the given
// bound if none is older. The caller loads the bound first.
func (r *readers) oldest(bound entry.Version) entry.Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if v, busy := s.reads(); busy {
			bound = min(bound, v)
		}
	}
	return bound
}

// holds returns the numbers of the Views that busy slots name.
func (r *readers) holds() map[uint64]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(map[uint64]bool)
	for _, s := range r.slots {
		if _, busy := s.reads(); busy {
			held[s.view.Load()] = true
		}
	}
	return held
}

// active counts the readers that hold a version, and returns what the one with
// the oldest announced: the version, the View, and where it began.
func (r *readers) active() (count int, oldest entry.Version, view uint64, origin uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		v, busy := s.reads()
		if !busy || v == noVersion {
			continue
		}
		if count == 0 || v < oldest {
			oldest, view, origin = v, s.view.Load(), s.origin.Load()
		}
		count++
	}
	return count, oldest, view, origin
}
