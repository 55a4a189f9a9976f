package tree

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
)

// slot is where one reader at a time announces what it holds. A slot has a
// cache line of its own, so that readers on different cores share nothing.
type slot struct {
	version atomic.Uint64  // 1 + a version: nothing the reader may see is older; 0 = idle
	view    atomic.Uint64  // the View that the reader holds, or one that an earlier reader held
	origin  atomic.Uintptr // program counter where the last one that said so began
	_       [104]byte
}

// noVersion is announced by those who need a View to stay, but no history:
// background work and the commit leader.
const noVersion = entry.MaxVersion

// announce says that a reader begins, which will see version and what is newer.
func (s *slot) announce(version entry.Version) { s.version.Store(uint64(version) + 1) }

// reads returns the announced version, and whether the slot is in use.
func (s *slot) reads() (version entry.Version, busy bool) {
	v := s.version.Load()
	return entry.Version(v - 1), v != 0
}

// take makes the current View that of an announced slot, which then holds it (a
// hazard pointer: Michael, "Safe Memory Reclamation for Dynamic Lock-Free
// Objects", 2004).
//
// Invariant: a slot announces, then names a View, and only then looks whether
// that is current. So who has replaced a View, and then finds no busy slot that
// names it, knows that nobody uses it or ever will.
func (vs *views) take(s *slot) *View {
	for {
		v := vs.current.Load()
		if s.view.Load() == v.id { // named since before it was seen to be current
			return v
		}
		s.view.Store(v.id)
		if vs.current.Load() == v {
			return v
		}
	}
}

// readers knows every reader's slot. Readers only store to their own; whoever
// releases a View or drops versions looks at all.
type readers struct {
	pool  sync.Pool // *Pin with a slot
	freed func()    // called when the collector has found a Pin that was leaked

	mu    sync.Mutex // guards:
	slots []*slot
	free  []*slot
}

// reserve returns a slot for one who does without a Pin.
func (e *readers) reserve() *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := new(slot)
	e.slots = append(e.slots, s)
	return s
}

// pin returns an idle Pin that owns a slot.
func (e *readers) pin() *Pin {
	if p, _ := e.pool.Get().(*Pin); p != nil {
		return p
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var s *slot
	if n := len(e.free); n > 0 {
		s, e.free = e.free[n-1], e.free[:n-1]
	} else {
		s = new(slot)
		e.slots = append(e.slots, s)
	}
	p := &Pin{slot: s}
	// A Pin that the pool lets go gives its slot back; one that is leaked while
	// it is held keeps it, and what it pins, until the collector finds it.
	runtime.AddCleanup(p, e.recycle, s)
	return p
}

func (e *readers) recycle(s *slot) {
	leaked := s.version.Swap(0) != 0
	e.mu.Lock()
	e.free = append(e.free, s)
	e.mu.Unlock()
	if leaked {
		e.freed()
	}
}

// oldest returns the oldest version that any reader has announced, or the given
// bound if none is older. The caller loads the bound first.
func (e *readers) oldest(bound entry.Version) entry.Version {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
		if v, busy := s.reads(); busy {
			bound = min(bound, v)
		}
	}
	return bound
}

// holds returns the numbers of the Views that busy slots name.
func (e *readers) holds() map[uint64]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(map[uint64]bool)
	for _, s := range e.slots {
		if _, busy := s.reads(); busy {
			held[s.view.Load()] = true
		}
	}
	return held
}

// active counts the readers that hold a version, and returns what the one with
// the oldest announced: the version, the View, and where it began.
func (e *readers) active() (count int, oldest entry.Version, view uint64, origin uintptr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
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
