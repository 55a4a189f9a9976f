package offheap

// Buffer is a block that grows. The zero value is empty. Its owner frees it; one
// that is forgotten is never given back.
type Buffer struct {
	block []byte
	heap  bool // it is of the Go heap, for want of other memory
}

// Grow returns a slice of at least n bytes of capacity that begins with those of
// used, a slice of what Grow returned before, or empty. That is not to be touched
// afterwards.
func (b *Buffer) Grow(used []byte, n int) []byte {
	if n <= cap(b.block) {
		return b.block[:len(used)]
	}
	next := Buffer{}
	var err error
	if next.block, err = Alloc(n); err != nil {
		next = Buffer{block: make([]byte, n), heap: true}
	}
	copy(next.block, used)
	b.Free()
	*b = next
	return b.block[:len(used)]
}

// Free gives the block back: no slice of it may be touched afterwards.
func (b *Buffer) Free() {
	if !b.heap {
		_ = Free(b.block) // it can only fail for other memory
	}
	*b = Buffer{}
}
