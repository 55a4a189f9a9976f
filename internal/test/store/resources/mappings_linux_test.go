package resources

import (
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// What lost transactions of a closed store have mapped is given back, unless they have handed out
// slices of it.
func TestClosedStoresAreUnmapped(t *testing.T) {
	for _, l := range leaving {
		if l.lends {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			o := brock.Options{Dir: t.TempDir(), Durability: brock.Buffered}
			db := assert.Must(brock.Open(o))
			assert.OK(t, db.Set([]byte("a"), storetest.RandomBytes(1, 100<<10)))
			assert.OK(t, db.Close())
			own(t, o, l.leave)
			process.CollectGarbage(t, func() bool { return process.CountHeld(t, o.Dir) == 0 })
		})
	}
}
