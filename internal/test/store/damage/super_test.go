package damage

import (
	"errors"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestVerifyFindsADamagedSlot: Open needs one slot of SUPER, and Verify checks both, also in a store
// that is only read, as no writer has mended it. One that is opened for writing has two again.
func TestVerifyFindsADamagedSlot(t *testing.T) {
	const slot = 4096
	for _, keyed := range []bool{false, true} {
		for _, at := range []int{0, 40, 508, 4000} {
			for which := range 2 {
				mem := vfs.NewMem()
				o := storetest.KeyedOptions(mem, storetest.Dir)
				if !keyed {
					o.Keys = nil
				}
				db := assert.Must(brock.Open(o))
				storetest.Set(t, db, "k=v")
				assert.OK(t, db.Close())
				f := assert.Must(mem.OpenReadWrite(storetest.Dir + "/SUPER"))
				b := make([]byte, 1)
				offset := int64(which*slot + at)
				assert.Must(f.ReadAt(b, offset))
				b[0] ^= 1
				assert.Must(f.WriteAt(b, offset))
				assert.OK(t, f.Close())

				for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.Follow, brock.ReadWrite} {
					o.Mode = mode
					db := assert.Must(brock.Open(o))
					var found []*brock.CorruptionError
					err := db.Verify(t.Context(), func(c *brock.CorruptionError) { found = append(found, c) })
					assert.OK(t, db.Close())
					switch {
					case mode == brock.ReadWrite:
						assert.OK(t, err)
					case len(found) != 1 || found[0].File != "SUPER" || found[0].Offset != int64(which*slot) || !errors.Is(err, brock.ErrCorrupt):
						t.Errorf("mode %v, byte %d flipped: %v, %v", mode, offset, found, err)
					}
				}
			}
		}
	}
}
