package load

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestEmptyKeyIsTheFirst: the first key of a sorted load may be the empty one, once, in loads that go
// to files and in small ones.
func TestEmptyKeyIsTheFirst(t *testing.T) {
	for _, n := range []int{0, 10, 2000} {
		for _, replace := range []bool{false, true} {
			db := storetest.Open(t, brock.Options{Dir: "/db", FS: vfs.NewMem()})
			assert.OK(t, db.Set(nil, []byte("before")))
			l := assert.Must(db.Default().NewLoader(t.Context(), brock.LoadOptions{Sorted: true, Replace: replace, MaxMemory: 1}))
			assert.OK(t, l.Set(nil, []byte("loaded")))
			assert.Error(t, "the empty key again", l.Set([]byte{}, nil), brock.ErrInvalid)
			for i := range n {
				assert.OK(t, l.Set(fmt.Appendf(nil, "%06d", i), storetest.RandomBytes(i, 300)))
			}
			assert.Error(t, "an empty key later", l.Set(nil, nil), brock.ErrInvalid)
			assert.Must(l.Finish())
			v, err := db.Get(nil)
			assert.OK(t, err)
			assert.Equal(t, "value", string(v), "loaded")
			assert.OK(t, db.Verify(t.Context(), nil))
		}
	}
}
