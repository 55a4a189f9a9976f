package pageio

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/jobs"
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
	n      int64 // numbers are below n
	blocks []atomic.Pointer[bitBlock]
	memory *BitMemory // counts and empties its blocks
}

// BitMemory bounds the memory that several Bits take together, and the time for which their
// bits are believed. It empties some of them when the memory is full, so keep in them only
// what can be found out again.
//
// A page that was verified may leave memory, and come back with other bytes. So sets of
// what was verified are emptied when an epoch ends: EpochTime after it began, or once so
// many pages were read that they may have taken the place of others. Sets of what is in
// memory have generations: a page is believed to be there until it was not used for one
// epoch, or two.
//
// How many pages that are is found out: pages that were not used for longer are kept in
// mind. If they are used again, the system is asked whether they have stayed in memory.
type BitMemory struct {
	limit  int64        // in bytes; 0: none
	always bool         // verify each time: sets of verified parts stay empty
	used   atomic.Int64 // bytes of all blocks
	misses atomic.Int64 // pages that were read from the disk since the epoch began
	length atomic.Int64 // misses that end an epoch
	epoch  atomic.Uint32
	alarm  atomic.Pointer[jobs.Alarm] // ends epochs in time; nil: only misses end them

	// Pages that were used again, by how many epochs ago they were used last: all of them, and
	// those that were no longer in memory. Not counted for pages still believed to be there.
	again, gone [generations]atomic.Int64

	mu    sync.Mutex // guards:
	began time.Time  // when the epoch began
	same  int        // epochs since length was changed last
	total int64      // pages that were read and not in memory, ever
	sets  map[*atomic.Pointer[bitBlock]]agedBits
	pages map[*atomic.Uint64]PageBits
}

// agedBits is a set and when it is emptied: at the end of each epoch, when its generation has its
// turn, or only by Forget.
type agedBits struct {
	Bits
	turn int
}

const (
	generations    = 4 // of pages: used in this epoch, in the one before, and so on
	believed       = 2 // generations of pages that are believed to be in memory
	eachEpoch      = generations
	untilForgotten = generations + 1
)

const bitBlockBytes = blockWords * 8

// When an epoch ends: to verify 64,000 pages again, 256 MB, takes some 30 ms a minute.
const (
	EpochTime  = time.Minute
	EpochPages = 4096 // 16 MB, the first one

	leastPages = EpochPages / 4
	mostPages  = 1 << 20 // 4 GB

	epochSample = 64 // pages from which on the length of epochs is judged
	epochShare  = 16 // an epoch is at most this part, 1/16, of all pages that were ever read
	mostGone    = 32 // at most this part, 1/32, of them may have left memory
)

// NewBitMemory returns memory of limit bytes; 0 = any number. The table of a
// set, a 512th of that when it is full, is not counted. With always, sets of what was
// verified stay empty, so that it is verified each time.
func NewBitMemory(limit int64, always bool) *BitMemory {
	m := &BitMemory{limit: limit, always: always, sets: map[*atomic.Pointer[bitBlock]]agedBits{}, pages: map[*atomic.Uint64]PageBits{}}
	m.length.Store(EpochPages)
	return m
}

// EndEpochsBy sets the alarm that ends epochs in time; its task must call EndEpoch. Without it an
// epoch ends only after enough pages were read.
func (m *BitMemory) EndEpochsBy(a *jobs.Alarm) {
	m.alarm.Store(a)
	a.Set(EpochTime) // bits may have been set before
}

// generation is the index of the pages that were used in this epoch.
func (m *BitMemory) generation() int { return int(m.epoch.Load() % generations) }

// generationBefore is the generation this many epochs before g.
func generationBefore(g, epochs int) int { return (g + generations - epochs) % generations }

// EndEpoch ends the epoch if it is time: EpochTime empties all sets.
func (m *BitMemory) EndEpoch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := EpochTime - time.Since(m.began)
	switch {
	case m.misses.Load() >= m.length.Load():
		m.ageLocked()
		left = EpochTime
	// Nobody may have read for this long. What was verified may be out of memory, and nothing
	// tells.
	case left <= 0:
		m.forgetLocked()
		return // the next bit sets the alarm
	}
	if a := m.alarm.Load(); a != nil && m.used.Load() > 0 {
		a.Set(left)
	}
}

// Forget empties all sets, and so begins an epoch. It takes some microseconds for
// each file.
func (m *BitMemory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked()
}

func (m *BitMemory) forgetLocked() {
	m.began = time.Now()
	// A new epoch: the old count must not end it early.
	m.misses.Store(0)
	for _, b := range m.sets {
		b.Clear()
	}
	m.forgetPagesLocked()
}

func (m *BitMemory) forgetPagesLocked() {
	for _, b := range m.pages {
		b.Clear()
	}
}

// ageLocked begins an epoch, after one of m.length pages.
func (m *BitMemory) ageLocked() {
	m.began = time.Now()
	m.misses.Store(0)
	m.adaptLength()
	// The oldest generation is emptied, and becomes the newest.
	next := (m.generation() + 1) % generations
	// Before the epoch changes: bits that are set from then on are of the new one.
	for _, b := range m.sets {
		if b.turn == next || b.turn == eachEpoch {
			b.zeroBlocks()
		}
	}
	m.forgetPagesLocked()
	m.epoch.Store(uint32(next))
}

// adaptLength changes the length of epochs. When it is doubled, pages are believed for as long
// as all pages have stayed in memory that were used that long before.
func (m *BitMemory) adaptLength() {
	const next, last = believed, generations - 1
	var again, gone [generations]int64
	for i := range again {
		again[i], gone[i] = m.again[i].Swap(0), m.gone[i].Swap(0)
	}
	length := m.length.Load()
	m.total += length
	// Once all generations are of epochs of this length.
	if m.same++; m.same <= generations {
		return
	}
	switch {
	// Of the pages that were used only a little too long ago to be believed, many were gone. So
	// some of those that are believed must be gone, too: believe half as long.
	case again[next] >= epochSample && gone[next] > again[next]/mostGone:
		m.length.Store(max(length/2, leastPages))
		m.same = 0
	// Until memory is full, nothing leaves it: that must not be taken for a proof.
	case again[last] >= epochSample && gone[last] == 0 && 2*length <= m.total/epochShare:
		m.length.Store(min(2*length, mostPages))
		m.same = 0
	}
}

// countUsedAgain counts a page that was used again this many epochs after it was used last, and
// whether it is in memory still.
func (m *BitMemory) countUsedAgain(epochs int, in bool) {
	m.again[epochs].Add(1)
	if !in {
		m.gone[epochs].Add(1)
	}
}

// countMissed counts pages that were read because they were not in memory.
func (m *BitMemory) countMissed(pages int64) {
	// Most calls end here, with one addition.
	if pages == 0 || m.misses.Add(pages) < m.length.Load() {
		return
	}
	// A task does it, if there is one: this may be a reader who waits for a page.
	if a := m.alarm.Load(); a != nil {
		a.Set(0)
	} else {
		m.EndEpoch()
	}
}

// newBits returns an empty set for the numbers in [0, n), to be dropped by Free, which
// is emptied in its turn.
func (m *BitMemory) newBits(n int64, turn int) Bits {
	n = max(n, 0)
	b := Bits{n, make([]atomic.Pointer[bitBlock], (n+blockBits-1)/blockBits), m}
	if n == 0 {
		return b
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Copies of a Bits share the blocks, so their address is the set's name.
	m.sets[&b.blocks[0]] = agedBits{b, turn}
	return b
}

// Bytes is how much memory is used.
func (m *BitMemory) Bytes() int64 { return m.used.Load() }

// setAlarm sets the alarm for the end of the epoch, as a bit was set.
func (m *BitMemory) setAlarm() {
	if a := m.alarm.Load(); a != nil {
		a.Set(EpochTime)
	}
}

// takeBlock counts a new block, and empties sets if there are too many.
func (m *BitMemory) takeBlock() {
	m.setAlarm()
	// Not Lock: a reader must not wait here, and whoever has the lock may be emptying sets already.
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
	if len(b.blocks) > 0 {
		b.memory.mu.Lock()
		defer b.memory.mu.Unlock()
		delete(b.memory.sets, &b.blocks[0])
	}
}

// Test reports whether i is in the set.
func (b *Bits) Test(i int64) bool {
	u := uint64(i)
	// Negative numbers are greater than n as well.
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
			b.memory.takeBlock()
		}
		// It may have been dropped again already.
		if block = at.Load(); block == nil {
			block = fresh
		}
	}
	bit := uint64(1) << (u % 64)
	return block[u/64%blockWords].Or(bit)&bit != 0
}

// zeroBlocks empties the set, as Clear does, but only blocks that were empty are dropped: the
// others will be needed again. Else each epoch would make garbage of all blocks.
func (b *Bits) zeroBlocks() {
	for i := range b.blocks {
		if block := b.blocks[i].Load(); block != nil && !block.zeroBits() {
			b.dropBlock(i)
		}
	}
}

// zeroBits clears all bits, and reports whether there were any.
func (b *bitBlock) zeroBits() (any bool) {
	for i := range b {
		if b[i].Load() != 0 {
			b[i].Store(0)
			any = true
		}
	}
	return any
}

// Clear empties the set. A number that is set meanwhile may get lost.
func (b *Bits) Clear() {
	for i := range b.blocks {
		// Most blocks were never taken: to look is cheaper than to write.
		if b.blocks[i].Load() != nil {
			b.dropBlock(i)
		}
	}
}

// dropBlock gives block i back.
func (b *Bits) dropBlock(i int) {
	// Two goroutines may drop it at the same time: one of them counts.
	if b.blocks[i].Swap(nil) != nil {
		b.memory.used.Add(-bitBlockBytes)
	}
}
