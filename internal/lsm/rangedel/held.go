package rangedel

import "github.com/brockdb/brock/internal/base/offheap"

// held keeps a copy of a key while a walk needs it. A long key lies off the Go heap: so it
// takes no more than its length, and nothing once it is freed.
type held struct {
	key    []byte
	memory offheap.Buffer
}

// copyFrom makes h hold a copy of key, which doesn't lie in memory of h.
func (h *held) copyFrom(key []byte) {
	h.key = append(h.memory.Grow(h.key[:0], len(key)), key...)
}

// giveBack gives the memory back, and leaves h as the zero held.
func (h *held) giveBack() {
	h.memory.Free()
	h.key = nil
}
