package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// What a transaction handed out stays readable after a Close, until its Discard.
func TestValuesOutliveClose(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		db := openTest(t, brock.Options{Dir: dir, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100}})
		big := strings.Repeat("big", 10_000)
		set(t, db, "a=small", "b="+big)
		must(t, db.Flush(t.Context()))
		set(t, db, "c=memory")
		for _, update := range []bool{false, true} {
			txn := db.NewTransaction(update)
			var values [][]byte
			for _, key := range []string{"a", "b", "c"} {
				it, err := txn.Get(b(key))
				must(t, err)
				values = append(values, must2(it.Value()))
			}
			it := txn.NewIterator(brock.IteratorOptions{})
			it.Rewind()
			defer func() {
				wantEqual(t, "values", fmt.Sprintf("%s %d %s", values[0], len(values[1]), values[2]), "small 30000 memory")
				wantEqual(t, "big", string(values[1]), big)
				it.Next()
				wantErr(t, "iterator", it.Err(), brock.ErrClosed)
				txn.Discard()
			}()
		}
		must(t, db.Close())
	}
}

// Everything is there again after a Close, with its attributes, and after a
// crash everything that was committed as Synced.
func TestReopen(t *testing.T) {
	fs := vfs.NewMem()
	o := brock.Options{Dir: "/s", FS: fs, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100, Versions: brock.Retention{Versions: 3}}}
	db, err := brock.Open(o)
	must(t, err)
	long := strings.Repeat("x", 1000)
	set(t, db, "a=1", "b="+long)
	must(t, db.Update(func(txn *brock.Txn) error {
		return txn.SetEntry(brock.NewEntry(b("m"), nil).WithMeta(9).WithOnlyLatest())
	}))
	must(t, db.Flush(t.Context()))
	set(t, db, "a", "c="+long)
	check := func(db *brock.DB) {
		t.Helper()
		wantEqual(t, "version", db.Version(), 3)
		must(t, db.View(func(txn *brock.Txn) error {
			wantEqual(t, "store", show(txn.All()), "b="+long+" c="+long+" m=")
			it, err := txn.Get(b("m"))
			must(t, err)
			wantEqual(t, "meta", it.Meta(), 9)
			wantEqual(t, "only latest", it.OnlyLatest(), true)
			return nil
		}))
		must(t, db.Verify(t.Context(), nil))
	}
	check(db)
	crashed, err := brock.Open(brock.Options{Dir: "/s", FS: fs.CrashClone(vfs.CrashOptions{})})
	must(t, err)
	check(crashed)
	must(t, crashed.Close())
	must(t, db.Close())
	o.Mode = brock.ReadOnly
	db, err = brock.Open(o)
	must(t, err)
	check(db)
	wantErr(t, "write", db.Set(b("a"), nil), brock.ErrReadOnly)
	must(t, db.Close())
}
