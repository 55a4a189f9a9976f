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
	epoch   atomic.Uint64 // of the reader's pin; 0 = idle
	version atomic.Uint64 // nothing the reader may see is older; noVersion if it holds a View only
	_       [112]byte
}

// noVersion is announced by those who need a View to stay, but no history:
// background work and the commit leader.
const noVersion = entry.MaxVersion

// epochs knows every reader's slot. Readers only store to their own; whoever
// retires a View or drops versions looks at all.
//
// Invariant: a reader stores version, then epoch, and only then loads the read
// version and the View. So who has replaced a View, advanced the epoch and then
// finds a slot idle knows that its next reader gets the new View; and who has
// loaded the published version before it looks at the slots knows that a reader
// it does not see reads at that version or later.
//
// A reader uses no View before it has found the epoch, after it loaded the View,
// to be still the one it announced; else it announces again (views.pinned). So a
// slot names the View that was current during its epoch, or the one that replaced
// it, as a View is replaced just before the epoch advances; and no other View. A
// long reader thus keeps two Views at most, however many come and go meanwhile.
type epochs struct {
	now   atomic.Uint64
	pool  sync.Pool // *Pin with a slot
	freed func()    // called when the collector has found a Pin that was leaked

	mu    sync.Mutex // guards:
	slots []*slot
	free  []*slot
}

func (e *epochs) init(freed func()) {
	e.now.Store(1)
	e.freed = freed
}

// announce says in s that a reader begins, which will see version and what is newer.
func (e *epochs) announce(s *slot, version entry.Version) {
	s.version.Store(uint64(version))
	s.epoch.Store(e.now.Load())
}

// reserve returns a slot for one who does without a Pin.
func (e *epochs) reserve() *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := new(slot)
	e.slots = append(e.slots, s)
	return s
}

// pin returns an idle Pin that owns a slot.
func (e *epochs) pin() *Pin {
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

func (e *epochs) recycle(s *slot) {
	leaked := s.epoch.Swap(0) != 0
	e.mu.Lock()
	e.free = append(e.free, s)
	e.mu.Unlock()
	if leaked {
		e.freed()
	}
}

// oldest returns the oldest version that any reader holds, or the given bound if
// none is older. The caller loads the bound first.
func (e *epochs) oldest(version entry.Version) entry.Version {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
		if s.epoch.Load() != 0 {
			version = min(version, entry.Version(s.version.Load()))
		}
	}
	return version
}

// held returns the epochs that readers have announced.
func (e *epochs) held() map[uint64]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(map[uint64]bool)
	for _, s := range e.slots {
		if at := s.epoch.Load(); at != 0 {
			held[at] = true
		}
	}
	return held
}

// active counts the readers that hold a version, and names the oldest of these, 0 if none.
func (e *epochs) active() (readers int, oldest entry.Version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
		v := entry.Version(s.version.Load())
		if s.epoch.Load() == 0 || v == noVersion {
			continue
		}
		if readers == 0 || v < oldest {
			oldest = v
		}
		readers++
	}
	return readers, oldest
}
