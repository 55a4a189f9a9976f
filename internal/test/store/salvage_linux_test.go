package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// openMaps fails the mappings of files that are opened by their path, too.
type openMaps struct{ *failingMaps }

func (f openMaps) Open(name string) (vfs.File, error) { return f.wrap(f.FS.Open(name)) }

// TestSalvageFaults: a large transaction whose pages can't be read in the mapping is looked
// through piece by piece, and ends no salvage.
func TestSalvageFaults(t *testing.T) {
	needsMappings(t)
	in := t.TempDir()
	o := brock.Options{Dir: filepath.Join(in, "old"), Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db, err := brock.Open(o)
	must(t, err)
	value := incompressible(1, 17<<20) // frames that are smaller are not mapped
	must(t, db.Update(func(txn *brock.Txn) error {
		must(t, txn.Set(b("large"), value))
		return txn.Set(b("small"), b("value"))
	}))
	must(t, db.Close())
	maps := newFailingMaps()
	maps.fail(t, true)
	o.FS = openMaps{maps}
	to := brock.Options{Dir: filepath.Join(in, "new")}
	losses := 0
	sum, err := brock.Salvage(t.Context(), o, to, func(*brock.CorruptionError) { losses++ })
	must(t, err)
	if losses == 0 {
		t.Error("no mapping was used")
	}
	wantEqual(t, "keys", sum.Keys, 1) // the small one has no checksum of its own
	got, err := opened(t, to).Get(b("large"))
	must(t, err)
	wantEqual(t, "value", string(got) == string(value), true)
}
