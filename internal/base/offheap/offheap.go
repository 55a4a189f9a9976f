// Package offheap allocates large blocks outside of the Go heap, where the
// garbage collector neither scans them nor counts them when it decides to run.
// Blocks hold no Go pointers.
package offheap

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/errs"
)

// minMapped is the size from which a block is a mapping of its own. For smaller ones
// the Go heap costs fewer pages and no system call.
const minMapped = 64 << 10

// Alloc returns n zero bytes, aligned to 8, which stay until Free. On systems without
// anonymous mappings they are on the Go heap; also in race builds, whose detector
// sees only the Go heap. An error is of the class errs.Refused: the system has no
// memory now.
func Alloc(n int) ([]byte, error) {
	if n < minMapped {
		n = max(n, 0)
		return make([]byte, (n+7)&^7)[:n:n], nil // the heap aligns by the size
	}
	b, err := mapAnonymous(n)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, errs.MarkRefused(err))
	}
	return b, nil
}

// Free gives back a block, exactly as Alloc returned it. Don't touch it, or a slice
// of it, afterwards.
func Free(b []byte) error {
	// It is of the Go heap, see Alloc.
	if len(b) < minMapped {
		return nil
	}
	return unmap(b)
}
