package pageio

import "sync/atomic"

// PageBits is a set of the pages of a file, or of a part of it, that were verified. It is
// Bits in one piece: the memory for all pages is taken at once, an eighth of a byte for
// each, and not counted; a test is one load. Any number of goroutines use it, and copies
// share the set. A page beyond the last is never in it.
type PageBits struct {
	words  []atomic.Uint64
	memory *BitMemory // empties it; nil: nobody does
}

// NewPageBits returns an empty set for n pages.
func NewPageBits(n int64) PageBits {
	return PageBits{words: make([]atomic.Uint64, (max(n, 0)+63)/64)}
}

// verifiedPages returns an empty set for what was verified of n pages, to be dropped by
// Free.
func (m *BitMemory) verifiedPages(n int64) PageBits {
	if m.always || n <= 0 {
		return PageBits{}
	}
	b := NewPageBits(n)
	b.memory = m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages[&b.words[0]] = b
	return b
}

// Test reports whether page i is in the set.
func (b *PageBits) Test(i int) bool {
	w := uint(i) / 64
	return w < uint(len(b.words)) && b.words[w].Load()>>(uint(i)%64)&1 != 0
}

// Set puts page i into the set.
func (b *PageBits) Set(i int) {
	w := uint(i) / 64
	if w >= uint(len(b.words)) {
		return
	}
	b.words[w].Or(1 << (uint(i) % 64))
	if b.memory != nil {
		// The set must be emptied in time.
		b.memory.await()
	}
}

// Clear empties the set. A page that is set meanwhile may get lost.
func (b *PageBits) Clear() {
	for i := range b.words {
		if b.words[i].Load() != 0 { // to look is cheaper than to write
			b.words[i].Store(0)
		}
	}
}

// Free empties a set for good: nothing may be set afterwards.
func (b *PageBits) Free() {
	b.Clear()
	if m := b.memory; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.pages, &b.words[0])
	}
}
