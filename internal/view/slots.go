package view

import (
	"slices"
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
	index   int            // in readers.slots
	_       [96]byte
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

// readers knows every reader's slot. Readers only store to their own; one who
// releases a View or drops versions looks at all. So there are as many slots as there
// are Pins, in use or kept for the next reader, and the pool lets go of the latter.
type readers struct {
	mu    sync.Mutex // guards:
	slots []*readerSlot
}

// take returns an idle slot, for a reader who gives it back.
func (r *readers) take() *readerSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &readerSlot{index: len(r.slots)}
	r.slots = append(r.slots, s)
	return s
}

// giveBack ends a slot, and reports whether its reader had leaked it.
func (r *readers) giveBack(s *readerSlot) (leaked bool) {
	leaked = s.version.Swap(0) != 0
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.slots) - 1
	r.slots[s.index] = r.slots[last]
	r.slots[s.index].index = s.index
	r.slots[last] = nil
	if r.slots = r.slots[:last]; last < cap(r.slots)/4 {
		r.slots = slices.Clip(slices.Clone(r.slots))
	}
	return leaked
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
