package memtable

import (
	"github.com/brockdb/brock/internal/invariant"
	"github.com/brockdb/brock/internal/offheap"
)

// allocate returns n zero bytes, aligned to 8, outside of what the collector scans.
func allocate(n int) ([]byte, error) { return offheap.Alloc(n) }

// free gives back what allocate returned. It can only fail for other memory.
func free(mem []byte) {
	err := offheap.Free(mem)
	invariant.Check(err == nil, "free memory of a memtable: %v", err)
}
