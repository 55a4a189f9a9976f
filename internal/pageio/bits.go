package pageio

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/jobs"
)

const (
	blockWords = 64              // words a block: 512 B
	blockBits  = blockWords * 64 // bits a block
)

type bitBlock [blockWords]atomic.Uint64

// Bits is a set of numbers that any number of goroutines use without locks. Memory
// is taken by blocks of 4096 numbers, when the first of them is set. Copies
// share the set. A number outside of [0, n) is never in it.
type Bits struct {
	n      int64
	blocks []atomic.Pointer[bitBlock]
	memory *BitMemory // nil: unbounded
}

// NewBits returns an empty set for the numbers in [0, n).
func NewBits(n int64) Bits {
	n = max(n, 0)
	return Bits{n: n, blocks: make([]atomic.Pointer[bitBlock], (n+blockBits-1)/blockBits)}
}

// BitMemory bounds the memory that several Bits take together, and the time that what
// they say is believed. Some of them are emptied when it is full, so keep in them only
// what can be found out again.
//
// A page that was verified may leave memory, and come back with other bytes. So all
// sets are emptied when an epoch ends: EpochTime after it began, or once EpochPages
// were read that were not in memory, as each has taken the place of another one.
type BitMemory struct {
	limit  int64
	always bool // what was verified is not believed at all
	used   atomic.Int64
	misses atomic.Int64 // pages, since the epoch began
	alarm  atomic.Pointer[jobs.Alarm]

	mu   sync.Mutex // guards:
	sets map[*atomic.Pointer[bitBlock]]Bits
}

const bitBlockBytes = blockWords * 8

// When an epoch ends: to verify 64,000 pages again, 256 MB, takes some 30 ms a minute.
const (
	EpochTime  = time.Minute
	EpochPages = 4096 // 16 MB
)

// NewBitMemory returns memory of limit bytes; 0 = any number. The table of a
// set, a 512th of that when it is full, is not counted. With always, sets of what was
// verified stay empty, so that it is verified each time.
func NewBitMemory(limit int64, always bool) *BitMemory {
	return &BitMemory{limit: limit, always: always, sets: map[*atomic.Pointer[bitBlock]]Bits{}}
}

// EndBy has a, whose task calls Forget, end the epochs. Without it they end only by
// pages that were read.
func (m *BitMemory) EndBy(a *jobs.Alarm) {
	m.alarm.Store(a)
	if m.used.Load() > 0 {
		a.Set(EpochTime)
	}
}

// Forget empties all sets, and so begins an epoch. It takes some microseconds for
// each file.
func (m *BitMemory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.misses.Store(0)
	for _, b := range m.sets {
		b.Clear()
	}
}

// missed counts pages that were read because they were not in memory.
func (m *BitMemory) missed(pages int64) {
	if m == nil || m.misses.Add(pages) < EpochPages {
		return
	}
	// A task does it, if there is one: this may be a reader who waits for a page.
	if a := m.alarm.Load(); a != nil {
		a.Set(0)
	} else {
		m.Forget()
	}
}

// verified returns an empty set for what was verified.
func (m *BitMemory) verified(n int64) Bits {
	if m != nil && m.always {
		return Bits{}
	}
	return m.newBits(n)
}

// newBits returns an empty set for the numbers in [0, n), to be dropped by Free.
func (m *BitMemory) newBits(n int64) Bits {
	b := NewBits(n)
	if m == nil || len(b.blocks) == 0 {
		return b
	}
	b.memory = m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets[&b.blocks[0]] = b
	return b
}

// Bytes is how much memory is used.
func (m *BitMemory) Bytes() int64 { return m.used.Load() }

// take counts a new block, and empties sets if there are too many.
func (m *BitMemory) take() {
	if m == nil {
		return
	}
	if a := m.alarm.Load(); a != nil {
		a.Set(EpochTime)
	}
	if m.used.Add(bitBlockBytes) <= m.limit || m.limit == 0 || !m.mu.TryLock() {
		return
	}
	defer m.mu.Unlock()
	// The order of a map differs each time, so no file is always the one to pay. A
	// quarter of the limit is freed, so that this is seldom done.
	for _, b := range m.sets {
		b.Clear()
		if m.used.Load() <= m.limit*3/4 {
			break
		}
	}
}

// Free empties a set for good: nothing may be set afterwards.
func (b *Bits) Free() {
	b.Clear()
	if m := b.memory; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.sets, &b.blocks[0])
	}
}

// Test reports whether i is in the set.
func (b *Bits) Test(i int64) bool {
	u := uint64(i)
	if u >= uint64(b.n) {
		return false
	}
	block := b.blocks[u/blockBits].Load()
	return block != nil && block[u/64%blockWords].Load()&(1<<(u%64)) != 0
}

// Set puts i into the set.
func (b *Bits) Set(i int64) { b.TestSet(i) }

// TestSet puts i into the set and reports whether it was there before.
func (b *Bits) TestSet(i int64) bool {
	u := uint64(i)
	if u >= uint64(b.n) {
		return false
	}
	at := &b.blocks[u/blockBits]
	block := at.Load()
	if block == nil {
		fresh := new(bitBlock)
		if at.CompareAndSwap(nil, fresh) {
			b.memory.take()
		}
		// It may have been dropped again already.
		if block = at.Load(); block == nil {
			block = fresh
		}
	}
	bit := uint64(1) << (u % 64)
	return block[u/64%blockWords].Or(bit)&bit != 0
}

// Clear empties the set. A number that is set meanwhile may get lost.
func (b *Bits) Clear() {
	for i := range b.blocks {
		// Most blocks were never taken: to look is cheaper than to write.
		if b.blocks[i].Load() != nil && b.blocks[i].Swap(nil) != nil && b.memory != nil {
			b.memory.used.Add(-bitBlockBytes)
		}
	}
}
