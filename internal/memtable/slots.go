package memtable

import (
	"math/bits"
	"sync/atomic"
	"unsafe" // a slot table is a typed view of allocated bytes
)

// slots is an open-addressing hash table. A slot holds the leading bits of a
// key's hash and the ref of the key's newest version; 0 is empty. A key's probe
// begins at the slot that the hash's top bits name, and goes up to the first
// empty one; no slot is ever emptied.
type slots struct {
	words []atomic.Uint64
	mem   []byte
	shift uint8 // hash >> shift is the first slot
	limit int   // keys from which on the table is grown
}

const (
	refMask    = refLimit - 1
	firstSlots = 128
)

func newSlots(n int) (*slots, error) {
	mem, err := allocate(n * 8)
	if err != nil {
		return nil, err
	}
	return &slots{
		words: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem))), n),
		mem:   mem,
		shift: uint8(64 - bits.TrailingZeros(uint(n))),
		limit: n / 8 * 5,
	}, nil
}

// grown is a table of n slots, more than s has, with those of s. Slots keep enough
// of the hash, so no key is read; both tables are walked from front to back.
func (s *slots) grown(n int) (*slots, error) {
	g, err := newSlots(n)
	if err != nil {
		return nil, err
	}
	mask := uint64(len(g.words) - 1)
	for i := range s.words {
		w := s.words[i].Load()
		if w == 0 {
			continue
		}
		j := w >> g.shift
		for g.words[j].Load() != 0 {
			j = (j + 1) & mask
		}
		*(*uint64)(unsafe.Pointer(&g.words[j])) = w // nobody else has g yet
	}
	return g, nil
}
