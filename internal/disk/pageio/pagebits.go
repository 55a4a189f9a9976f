package pageio

import "sync/atomic"

// PageBits is a set of the pages of a file, or of a part of it, that were verified. It is like
// Bits, but its memory, one bit a page, is allocated at once and does not count towards the limit
// of BitMemory; a test is one load. Any number of goroutines use it, and copies share the set. A
// page beyond the last is never in it.
type PageBits struct {
	words  []atomic.Uint64
	memory *BitMemory // empties it when an epoch ends; nil: nobody does
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
		// Starts the timer that ends the epoch, when the set is emptied.
		b.memory.setAlarm()
	}
}

// Clear empties the set. A Set beside it may be undone: then the page is verified once more.
func (b *PageBits) Clear() {
	for i := range b.words {
		if b.words[i].Load() != 0 { // a write would take the cache line from its readers
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
