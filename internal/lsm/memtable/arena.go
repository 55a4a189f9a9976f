package memtable

import (
	"errors"
	"slices"
	"sync/atomic"
	"unsafe" // entries are read in place: slice headers and bounds checks would double the cost of a get

	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/base/offheap"
)

// ErrFull says that a table's address space of 4 GiB has no room for an entry.
var ErrFull = errors.New("brock: memtable is full")

const (
	granuleShift = 17 // 1 MB in units of 8 bytes
	granuleUnits = 1 << granuleShift
	firstBlock   = 4 << 10
	largestBlock = 4 << 20
)

// arena is append-only memory in blocks that never move. A block covers whole
// granules of the ref space, though the first ones are smaller than a granule,
// so a ref is found through one table.
//
// One writer allocates. Any goroutine may call at for a ref that an atomic store
// has published. A new block is in the table before any ref into it.
type arena struct {
	granules atomic.Pointer[[]granule]
	blocks   [][]byte // as allocated, to free them
	next     ref      // where the next record begins
	end      ref      // where the current block's last record must end
	blockMax int      // size of the largest ordinary block
	blockLen int      // size of the latest ordinary block
	outside  atomic.Int64

	spare  []byte   // the next ordinary block, if ahead has allocated it
	spares [][]byte // blocks for outside values to come, likewise
}

// granule is one entry of the table: where it lies, and how many bytes of
// records stand before it.
type granule struct {
	base   unsafe.Pointer
	before int64
}

// at returns the memory at r: a record, or an outside value.
func (a *arena) at(r ref) *record {
	g := *a.granules.Load()
	return (*record)(unsafe.Add(g[r>>granuleShift].base, uintptr(r&(granuleUnits-1))*8))
}

// used is the number of bytes in records before r, and in outside values.
func (a *arena) used(r ref) int64 {
	if r == 0 {
		return 0
	}
	g := *a.granules.Load()
	return a.outside.Load() + g[(r-1)>>granuleShift].before + int64((r-1)&(granuleUnits-1)+1)*8
}

// reserve makes room for a record of n bytes and returns its place. The bytes
// are zero.
func (a *arena) reserve(n int) (ref, error) {
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

// blockExtra is what a block has beside records: the zero ref, and the jump.
const blockExtra = 2 * headerSize

// nextBlock is the size of the next ordinary block. Small tables stay small: the first block has
// 4 KB, each next one four times as much, up to blockMax.
func (a *arena) nextBlock() int { return min(max(a.blockLen*4, firstBlock), a.blockMax) }

// hasRoomFor reports whether records of n bytes in all find a place without an allocation. A record that
// begins a block leaves the rest of the one before unused: so one place must have room for all.
func (a *arena) hasRoomFor(n int) bool {
	return n <= int(a.end-a.next)*8 || n <= len(a.spare)-blockExtra
}

// ahead allocates what records of n bytes in all will need, and outside values of these lengths.
// After an error, some of it may be there.
func (a *arena) ahead(n int, outside []int) error {
	// Blocks that are still here were for values that were not added.
	for _, mem := range a.spares {
		giveBack(mem)
	}
	a.spares = a.spares[:0]
	for _, size := range outside {
		mem, err := offheap.Alloc((size + 7) &^ 7)
		if err != nil {
			return err
		}
		a.spares = append(a.spares, mem)
	}
	if a.hasRoomFor(n) {
		return nil
	}
	giveBack(a.spare)
	var err error
	a.spare, err = offheap.Alloc((max(a.nextBlock(), n+blockExtra) + 7) &^ 7)
	return err
}

// growBlock begins a block with room for a record of n bytes, and leaves a jump to it
// at the end of the current one.
func (a *arena) growBlock(n int) error {
	size := a.nextBlock()
	mem := a.spare
	if a.spare = nil; len(mem) < n+blockExtra {
		giveBack(mem)
		mem = nil
	}
	start, mem, err := a.block(max(size, n+blockExtra), mem)
	if err != nil {
		return err
	}
	a.blockLen = size
	if start == 0 {
		start = 1 // so that no record has the ref 0
	} else {
		a.at(a.next).older.Store(uint32(start))
	}
	a.next, a.end = start, start&^(granuleUnits-1)+ref(len(mem)-headerSize)/8
	return nil
}

// placeBytes puts n bytes in a block of their own.
func (a *arena) placeBytes(n int) (ref, unsafe.Pointer, error) {
	if a.next == 0 { // the walk begins in the first block
		if err := a.growBlock(0); err != nil {
			return 0, nil, err
		}
	}
	var mem []byte
	if i := slices.IndexFunc(a.spares, func(mem []byte) bool { return len(mem) == (n+7)&^7 }); i >= 0 {
		mem = a.spares[i]
		a.spares = slices.Delete(a.spares, i, i+1)
	}
	r, mem, err := a.block(n, mem)
	if err != nil {
		return 0, nil, err
	}
	a.outside.Add(int64(len(mem)))
	return r, unsafe.Pointer(unsafe.SliceData(mem)), nil
}

// block enters n bytes or more into the table: mem, or if that is nil, memory that it allocates.
func (a *arena) block(n int, mem []byte) (ref, []byte, error) {
	if mem == nil {
		var err error
		if mem, err = offheap.Alloc((n + 7) &^ 7); err != nil {
			return 0, nil, err
		}
	}
	var table []granule
	if p := a.granules.Load(); p != nil {
		table = *p
	}
	count := (len(mem) + 8*granuleUnits - 1) / (8 * granuleUnits)
	if len(table)+count > refLimit/granuleUnits {
		giveBack(mem)
		return 0, nil, ErrFull
	}
	// Appending to the table in place is safe: readers know only its front.
	start, before := ref(len(table))<<granuleShift, int64(0)
	if a.next != 0 {
		before = a.used(a.next) - a.outside.Load()
	}
	for i := range count {
		skip := i * 8 * granuleUnits
		table = append(table, granule{unsafe.Pointer(&mem[skip]), before + int64(skip)})
	}
	a.blocks = append(a.blocks, mem)
	a.granules.Store(&table)
	return start, mem, nil
}

// giveBack frees memory of offheap.Alloc. That can only fail for other memory.
func giveBack(mem []byte) {
	err := offheap.Free(mem)
	invariant.Check(err == nil, "free memory of a memtable: %v", err)
}

func (a *arena) release() {
	for _, mem := range slices.Concat(a.blocks, a.spares, [][]byte{a.spare}) {
		giveBack(mem)
	}
	a.blocks, a.spares, a.spare = nil, nil, nil
	a.granules.Store(nil)
}
