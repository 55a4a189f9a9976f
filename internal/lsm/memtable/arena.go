package memtable

import (
	"errors"
	"sync/atomic"
	"unsafe" // entries are read in place: bounds checks would double the cost of a get

	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/base/offheap"
)

// ErrFull says that a table's address space of 4 GiB has no room for an entry.
var ErrFull = errors.New("brock: memtable is full")

const (
	granuleShift = 17 // a granule has 1 MB, in units of 8 bytes
	granuleUnits = 1 << granuleShift
	firstBlock   = 4 << 10 // bytes of the first block
	largestBlock = 4 << 20 // bytes of an ordinary block, at most
)

// arena is append-only memory in blocks that never move, off the Go heap. A block covers whole
// granules (1 MB) of the ref space, though the first ones are smaller than a granule. So a ref is
// found through one table.
//
// One writer allocates. Any goroutine may call at for a ref that an atomic store has published. A
// new block is in the table before any ref into it.
type arena struct {
	granules atomic.Pointer[[]granule] // the table; a longer one replaces it, with the same front
	blocks   [][]byte                  // as allocated, to free them
	next     ref                       // where the next record begins; 0: there is no block yet
	end      ref                       // where the current block's last record must end
	blockMax int                       // size of the largest ordinary block
	blockLen int                       // size of the latest ordinary block
	spare    []byte                    // the next block, if allocateAhead has allocated it
	outside  *outside                  // where long values lie
}

// outside is an arena of long values, each in a block of its own or in one with others that were
// allocated ahead. Among records they would leave much of many blocks unused.
type outside struct {
	arena
	bytes atomic.Int64 // of the values
}

// granule is one entry of the table.
type granule struct {
	base   unsafe.Pointer // where its memory begins
	before int64          // bytes of records before it
}

// at returns the memory at r: a record, or an outside value.
func (a *arena) at(r ref) *record {
	g := *a.granules.Load()
	// No bounds checks: refs come from the table's own words only.
	return (*record)(unsafe.Add(g[r>>granuleShift].base, uintptr(r&(granuleUnits-1))*8))
}

// bytesBefore is the number of bytes before r.
func (a *arena) bytesBefore(r ref) int64 {
	if r == 0 {
		return 0
	}
	// r is the end of a record, and may be the first ref behind its granule.
	g := *a.granules.Load()
	return g[(r-1)>>granuleShift].before + int64((r-1)&(granuleUnits-1)+1)*8
}

// reserveBytes makes room for a record of n bytes and returns its place. The bytes
// are zero.
func (a *arena) reserveBytes(n int) (ref, error) {
	// Records begin at multiples of 8, for the atomic words in them.
	units := ref((n + 7) / 8)
	if a.next+units > a.end {
		if err := a.growBlock(n); err != nil {
			return 0, err
		}
	}
	r := a.next
	a.next += units
	return r, nil
}

// blockExtra is what a block has beside records, in bytes: the zero ref, and the jump.
const blockExtra = 2 * headerSize

// nextBlock is the size of the next ordinary block. Small tables stay small: the first block has
// 4 KB, each next one four times as much, up to blockMax.
func (a *arena) nextBlock() int { return min(max(a.blockLen*4, firstBlock), a.blockMax) }

// hasRoomFor reports whether records of n bytes in all find a place without an allocation. A record
// that begins a block leaves the rest of the one before unused. So one place must have room for
// all.
func (a *arena) hasRoomFor(n int) bool {
	return n <= int(a.end-a.next)*8 || n <= len(a.spare)-blockExtra
}

// allocateAhead allocates what records, or outside values, of n bytes in all will need.
func (a *arena) allocateAhead(n int) error {
	if a.hasRoomFor(n) {
		return nil
	}
	freeBlock(a.spare)
	var err error
	a.spare, err = allocBlock(max(a.nextBlock(), n+blockExtra))
	return err
}

// growBlock begins a block with room for a record of n bytes, and leaves a jump to it
// at the end of the current one.
func (a *arena) growBlock(n int) error {
	size := a.nextBlock()
	mem := a.spare
	// Memory that was allocated ahead may be too small if more was added than counted.
	if a.spare = nil; len(mem) < n+blockExtra {
		freeBlock(mem)
		var err error
		if mem, err = allocBlock(max(size, n+blockExtra)); err != nil {
			return err
		}
	}
	start, err := a.addBlock(mem)
	if err != nil {
		return err
	}
	a.blockLen = size
	if start == 0 { // the first block: no record has the ref 0
		start = 1
	} else {
		// A walk of the records (eachRecord) goes on in the new block. The jump must be there
		// before extent publishes a record behind it.
		a.at(a.next).older.Store(uint32(start))
	}
	// The end keeps room for the jump to the next block.
	a.next, a.end = start, start&^(granuleUnits-1)+ref(len(mem)-headerSize)/8
	return nil
}

// addBlock enters mem into the table, and returns the ref of its beginning. After an error mem is
// freed.
func (a *arena) addBlock(mem []byte) (ref, error) {
	var table []granule
	if p := a.granules.Load(); p != nil {
		table = *p
	}
	count := (len(mem) + 8*granuleUnits - 1) / (8 * granuleUnits)
	if len(table)+count > refLimit/granuleUnits {
		freeBlock(mem)
		return 0, ErrFull
	}
	// Appending to the table in place is safe: readers know only its front. The store below
	// publishes the new entries.
	start, before := ref(len(table))<<granuleShift, a.bytesBefore(a.next)
	for i := range count {
		skip := i * 8 * granuleUnits
		table = append(table, granule{unsafe.Pointer(&mem[skip]), before + int64(skip)})
	}
	// Go on only when nothing can fail: after an error nothing has changed.
	a.blocks = append(a.blocks, mem)
	a.granules.Store(&table)
	return start, nil
}

// allocBlock allocates n bytes, and as many more as whole units need.
func allocBlock(n int) ([]byte, error) { return offheap.Alloc((n + 7) &^ 7) }

// freeBlock frees memory of offheap.Alloc. That can only fail for other memory.
func freeBlock(mem []byte) {
	err := offheap.Free(mem)
	invariant.Check(err == nil, "free memory of a memtable: %v", err)
}

// freeBlocks frees all memory. Nobody may read it any more.
func (a *arena) freeBlocks() {
	for _, mem := range append(a.blocks, a.spare) {
		freeBlock(mem)
	}
	a.blocks, a.spare = nil, nil
	a.granules.Store(nil)
}
