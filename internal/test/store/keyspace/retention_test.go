package keyspace

import (
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestRetentionRaisedBehindARangeDelete raises a keyspace's retention when a range delete is in a
// run already, as one that all readers see. Later compactions would find readers of older versions
// than it again, if watermarks could fall.
func TestRetentionRaisedBehindARangeDelete(t *testing.T) {
	db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: vfs.NewMem(), Maintenance: brock.Maintenance{IdleAfter: time.Hour}})
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	ks := storetest.OpenKeyspace(t, db, "k", brock.KeyspaceOptions{})
	for n := range 10 {
		assert.OK(t, ks.Set(fmt.Appendf(nil, "key %d", n), []byte("old")))
	}
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, ks.DeleteRange([]byte("key 2"), []byte("key 8")))
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, ks.SetOptions(brock.KeyspaceOptions{Versions: brock.Retention{Age: 24 * time.Hour}}))
	for range 3 {
		assert.OK(t, db.Compact(t.Context()))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			assert.Equal(t, "keys", storetest.ListKeys(txn.In(ks)), "key 0 key 1 key 8 key 9")
			return nil
		}))
	}
	// What was there when the retention was raised stays, too.
	versions := 0
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		it := txn.In(ks).NewIterator(brock.IteratorOptions{AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			versions++
		}
		return it.Err()
	}))
	assert.Equal(t, "versions, deletes included", versions, 16)
}
