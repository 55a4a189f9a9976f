package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// TestRetentionRaisedBehindARangeDelete raises a keyspace's retention when a range delete is in a
// run already, as one that all readers see. Later compactions would find readers of older versions
// than it again, if watermarks could fall.
func TestRetentionRaisedBehindARangeDelete(t *testing.T) {
	db, err := brock.Open(brock.Options{Dir: dir, FS: vfs.NewMem(), Maintenance: brock.Maintenance{IdleAfter: time.Hour}})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	ks := keyspace(t, db, "k", brock.KeyspaceOptions{})
	for n := range 10 {
		must(t, ks.Set(fmt.Appendf(nil, "key %d", n), b("old")))
	}
	must(t, db.Flush(t.Context()))
	must(t, ks.DeleteRange(b("key 2"), b("key 8")))
	must(t, db.Flush(t.Context()))
	must(t, ks.SetOptions(brock.KeyspaceOptions{Versions: brock.Retention{Age: 24 * time.Hour}}))
	for range 3 {
		must(t, db.Compact(t.Context()))
		must(t, db.View(func(txn *brock.Txn) error {
			wantEqual(t, "keys", keysOf(txn.In(ks)), "key 0 key 1 key 8 key 9")
			return nil
		}))
	}
	// What was there when the retention was raised stays, too.
	versions := 0
	must(t, db.View(func(txn *brock.Txn) error {
		it := txn.In(ks).NewIterator(brock.IteratorOptions{AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			versions++
		}
		return it.Err()
	}))
	wantEqual(t, "versions, deletes included", versions, 16)
}

// TestDropOfAKeyspaceWithRangeDeletes drops a keyspace whose range deletes are in a run as ones that
// all readers see, while another keyspace keeps all history. Its range deletes go with it.
func TestDropOfAKeyspaceWithRangeDeletes(t *testing.T) {
	db, err := brock.Open(brock.Options{
		Dir: dir, FS: vfs.NewMem(), Maintenance: brock.Maintenance{IdleAfter: time.Hour},
		KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}},
	})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	ks := keyspace(t, db, "k", brock.KeyspaceOptions{Versions: brock.Retention{Age: -1}})
	for n := range 10 {
		must(t, ks.Set(fmt.Appendf(nil, "key %d", n), b("old")))
		must(t, db.Set(fmt.Appendf(nil, "key %d", n), b("old")))
	}
	must(t, db.Flush(t.Context()))
	must(t, ks.DeleteRange(b("key 2"), b("key 8")))
	must(t, db.DeleteRange(b("key 2"), b("key 8")))
	must(t, db.Flush(t.Context()))
	must(t, ks.Drop(t.Context()))
	for range 2 {
		must(t, db.Set(b("key 3"), b("new")))
		must(t, db.Compact(t.Context()))
	}
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "keys", keysOf(txn), "key 0 key 1 key 3 key 8 key 9")
		return nil
	}))
}
