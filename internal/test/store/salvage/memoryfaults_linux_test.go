package salvage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// openMaps fails the mappings of files that are opened by their path, too.
type openMaps struct{ *storetest.FailingMaps }

func (f openMaps) Open(name string) (vfs.File, error) { return f.Wrap(f.FS.Open(name)) }

// TestSalvageFaults: a large transaction whose pages can't be read in the mapping is looked
// through piece by piece, and ends no salvage.
func TestSalvageFaults(t *testing.T) {
	process.RequireMappings(t)
	in := t.TempDir()
	o := brock.Options{Dir: filepath.Join(in, "old"), Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	value := storetest.RandomBytes(1, 17<<20) // frames that are smaller are not mapped
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.OK(t, txn.Set([]byte("large"), value))
		return txn.Set([]byte("small"), []byte("value"))
	}))
	assert.OK(t, db.Close())
	maps := storetest.NewFailingMaps()
	maps.Fail(t, true)
	o.FS = openMaps{maps}
	to := brock.Options{Dir: filepath.Join(in, "new")}
	losses := 0
	sum, err := brock.Salvage(t.Context(), o, to, func(*brock.CorruptionError) { losses++ })
	assert.OK(t, err)
	if losses == 0 {
		t.Error("no mapping was used")
	}
	assert.Equal(t, "keys", sum.Keys, 1) // the small one has no checksum of its own
	got, err := storetest.OpenExisting(t, to).Get([]byte("large"))
	assert.OK(t, err)
	assert.Equal(t, "value", string(got) == string(value), true)
}
