package view

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
)

// readerSlot is where one reader at a time announces what it holds. A slot has a cache line of its
// own, so that readers on different cores share nothing.
type readerSlot struct {
	version atomic.Uint64  // 1 + the oldest version that the reader may need; 0: idle
	view    atomic.Uint64  // number of the View that the reader holds; while idle, any
	origin  atomic.Uintptr // program counter where the reader that last called Pin.SetOrigin began
	index   int            // in readers.slots
	_       [96]byte       // up to 128 bytes: processors fetch cache lines in pairs
}

// noVersion is announced by background work and the commit leader: they hold a View, but
// need no history, so compactions may drop all of it.
const noVersion = entry.MaxVersion

// announceVersion makes the slot busy: its reader needs version, and whatever is newer.
func (s *readerSlot) announceVersion(version entry.Version) { s.version.Store(uint64(version) + 1) }

// readers has the slots of all readers. A reader writes to its own slot alone, without a lock. To
// release a View or to drop versions takes a look at all slots. There is one slot for each Pin. A
// Pin that is not in use waits in a sync.Pool, which drops it when it is not needed for long. Then
// its slot ends.
type readers struct {
	mu    sync.Mutex    // guards:
	slots []*readerSlot // in no order; each knows its index
}

// addSlot adds an idle slot. End it with removeSlot.
func (r *readers) addSlot() *readerSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &readerSlot{index: len(r.slots)}
	r.slots = append(r.slots, s)
	return s
}

// removeSlot removes a slot. It reports whether the slot was still busy: its reader has leaked, and
// the View that it held may have to be released.
func (r *readers) removeSlot(s *readerSlot) (leaked bool) {
	leaked = s.version.Swap(0) != 0
	r.mu.Lock()
	defer r.mu.Unlock()
	// The last slot takes its place: no search and no gap.
	last := len(r.slots) - 1
	r.slots[s.index] = r.slots[last]
	r.slots[s.index].index = s.index
	r.slots[last] = nil
	// A burst of readers must not keep its slots' array for ever.
	if r.slots = r.slots[:last]; last < cap(r.slots)/4 {
		r.slots = slices.Clip(slices.Clone(r.slots))
	}
	return leaked
}

// busySlots walks the slots in use, each with the version that it announces. No slot comes or goes
// meanwhile.
func (r *readers) busySlots() iter.Seq2[entry.Version, *readerSlot] {
	return func(yield func(entry.Version, *readerSlot) bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.slots {
			// Loaded once: its reader may leave at any time.
			if v := s.version.Load(); v != 0 && !yield(entry.Version(v-1), s) {
				return
			}
		}
	}
}

// oldestActive counts the readers that hold a version. Of the one with the oldest version it
// returns the version, the number of the View, and where it began.
func (r *readers) oldestActive() (count int, oldest entry.Version, view uint64, origin uintptr) {
	for v, s := range r.busySlots() {
		// Background work needs no history, so it is no reader that holds any.
		if v == noVersion {
			continue
		}
		if count == 0 || v < oldest {
			oldest, view, origin = v, s.view.Load(), s.origin.Load()
		}
		count++
	}
	return count, oldest, view, origin
}
