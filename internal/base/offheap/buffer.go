package offheap

// Buffer is a block that grows. The zero value is empty. Its owner must call Free:
// the collector doesn't.
type Buffer struct {
	block []byte
	heap  bool // the block is on the Go heap, as the system had no other memory
}

// Grow returns a slice with a capacity of at least n bytes that begins with those of
// used, which is empty or a slice of what Grow returned before. Don't touch used
// afterwards.
func (b *Buffer) Grow(used []byte, n int) []byte {
	if n <= cap(b.block) {
		return b.block[:len(used)]
	}
	// Builders can't fail for want of this memory: the Go heap takes its place.
	next := Buffer{}
	var err error
	if next.block, err = Alloc(n); err != nil {
		next = Buffer{block: make([]byte, n), heap: true}
	}
	copy(next.block, used)
	// Mapped memory goes at once: waiting for a collection could take twice the memory for long.
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
