package tombstone

import "github.com/brockdb/brock/internal/offheap"

// held is the copy of a key for as long as a walk needs it. A long one is not on the Go
// heap: it takes its length, and nothing once it is free.
type held struct {
	key    []byte
	memory offheap.Buffer
}

// set makes key, no part of h, what h holds.
func (h *held) set(key []byte) {
	h.key = append(h.memory.Grow(h.key[:0], len(key)), key...)
}

// free gives the memory back. The zero held is left.
func (h *held) free() {
	h.memory.Free()
	h.key = nil
}
