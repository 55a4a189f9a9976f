package salvage

import (
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestSalvageOfRangesWithOneLowerBound deletes ranges with one lower bound, and nested ones, in one
// transaction each; the journal still has them.
func TestSalvageOfRangesWithOneLowerBound(t *testing.T) {
	for name, ranges := range map[string][][2]string{
		"growing":   {{"a", "c"}, {"a", "g"}, {"a", "e"}},
		"shrinking": {{"a", "g"}, {"a", "e"}, {"a", "c"}},
		"nested":    {{"a", "g"}, {"b", "c"}, {"b", "d"}, {"b", "d"}},
	} {
		mem := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem})
		assert.OK(t, err)
		storetest.Set(t, db, "a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1")
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for _, r := range ranges {
				assert.OK(t, txn.DeleteRange([]byte(r[0]), []byte(r[1])))
			}
			return nil
		}))
		assert.OK(t, db.Close())
		assert.Must(brock.Salvage(t.Context(), brock.Options{Dir: storetest.Dir, FS: mem}, brock.Options{Dir: "/saved", FS: mem}, func(c *brock.CorruptionError) { t.Error(c) }))
		saved, err := brock.Open(brock.Options{Dir: "/saved", FS: mem})
		assert.OK(t, err)
		assert.OK(t, saved.View(func(txn *brock.Txn) error { assert.Equal(t, name, storetest.ListKeys(txn), "g"); return nil }))
		assert.OK(t, saved.Close())
	}
}
