package memtable

import (
	"errors"
	"sync/atomic"
	"unsafe" // entries are read in place: slice headers and bounds checks would double the cost of a get

	"github.com/brockdb/brock/internal/invariant"
	"github.com/brockdb/brock/internal/offheap"
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
		if err := a.grow(n); err != nil {
			return 0, err
		}
	}
	r := a.next
	a.next += units
	return r, nil
}

// grow begins a block with room for a record of n bytes, and leaves a jump to it
// at the end of the current one.
func (a *arena) grow(n int) error {
	// Small tables stay small: the first block has 4 KB, each next one four times as
	// much, up to blockMax.
	size := min(max(a.blockLen*4, firstBlock), a.blockMax)
	room := max(size, n+2*headerSize) // the zero ref and the jump need room too
	start, mem, err := a.block(room)
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

// place puts n bytes in a block of their own.
func (a *arena) place(n int) (ref, unsafe.Pointer, error) {
	if a.next == 0 { // the walk begins in the first block
		if err := a.grow(0); err != nil {
			return 0, nil, err
		}
	}
	r, mem, err := a.block(n)
	if err != nil {
		return 0, nil, err
	}
	a.outside.Add(int64(len(mem)))
	return r, unsafe.Pointer(unsafe.SliceData(mem)), nil
}

// block allocates memory and enters it into the table.
func (a *arena) block(n int) (ref, []byte, error) {
	var table []granule
	if p := a.granules.Load(); p != nil {
		table = *p
	}
	count := (n + 8*granuleUnits - 1) / (8 * granuleUnits)
	if len(table)+count > refLimit/granuleUnits {
		return 0, nil, ErrFull
	}
	mem, err := offheap.Alloc((n + 7) &^ 7)
	if err != nil {
		return 0, nil, err
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

// free gives back memory of offheap.Alloc. It can only fail for other memory.
func free(mem []byte) {
	err := offheap.Free(mem)
	invariant.Check(err == nil, "free memory of a memtable: %v", err)
}

func (a *arena) release() {
	for _, mem := range a.blocks {
		free(mem)
	}
	a.blocks = nil
	a.granules.Store(nil)
}
