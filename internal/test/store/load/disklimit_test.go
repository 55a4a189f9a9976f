package load

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestLoadsKeepTheLimit: loads whose files are all smaller than a segment are refused at the limit, as
// any other writes are. One large load is, too.
func TestLoadsKeepTheLimit(t *testing.T) {
	const limit = 16 << 20
	for _, sorted := range []bool{true, false} {
		for _, each := range []int{20, 1 << 20} { // pairs of a load
			for _, size := range []int{300, 20_000} { // bytes of a value: in the tree, or in a segment
				mem := vfs.NewMem()
				db := storetest.Open(t, brock.Options{Dir: "/db", FS: mem, DiskLimit: limit})
				wrote := 0
				var err error
				for n := 0; err == nil && wrote < 2*limit; {
					l := assert.Must(db.Default().NewLoader(t.Context(), brock.LoadOptions{Sorted: sorted, MaxMemory: 100_000}))
					for i := int64(0); i < int64(each)*20_000/int64(size) && err == nil && wrote < 2*limit; i++ {
						err = l.Set(fmt.Appendf(nil, "%09d", n), storetest.RandomBytes(n, size))
						n, wrote = n+1, wrote+size
					}
					if err == nil {
						_, err = l.Finish()
					}
					l.Abort()
				}
				what := fmt.Sprintf("sorted %v, loads of %d, values of %d", sorted, each, size)
				if !errors.Is(err, brock.ErrNoSpace) {
					t.Errorf("%s: %v after %d bytes", what, err, wrote)
				}
				if wrote < limit/4 {
					t.Errorf("%s: refused after %d bytes", what, wrote)
				}
				if used := mem.Used(); used > limit*5/4 {
					t.Errorf("%s: %d bytes on the disk", what, used)
				}
				assert.OK(t, db.Verify(t.Context(), nil))
			}
		}
	}
}
