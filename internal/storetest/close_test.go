package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// Values that a transaction handed out stay readable after DB.Close, until the
// transaction ends.
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
