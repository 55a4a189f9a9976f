//go:build brockdebug

package store

import (
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// With -tags brockdebug, keys and values are overwritten when their lifetime ends,
// and not before.
func TestPoison(t *testing.T) {
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 4}})
	set(t, db, "a=1", "b=separated")
	dead := func(what string, b []byte) {
		t.Helper()
		wantEqual(t, what, string(b), strings.Repeat("\xdb", len(b)))
	}
	txn := db.NewTransaction(true)
	must(t, put(txn, "c=pending"))
	var lent [][]byte
	for _, key := range []string{"a", "b", "c"} {
		it, err := txn.Get(b(key))
		must(t, err)
		wantEqual(t, "key", string(it.Key()), key)
		lent = append(lent, it.Key(), must2(it.Value()))
	}
	it := txn.NewIterator(brock.IteratorOptions{})
	it.Rewind()
	first, value := it.Item().Key(), must2(it.Item().Value())
	wantEqual(t, "alive", string(first), "a")
	it.Next()
	dead("key after a move", first)
	wantEqual(t, "value after a move", string(value), "1")
	second := it.Item().Key()
	it.Close()
	dead("key after Close", second)
	wantEqual(t, "of Get", string(lent[3]), "separated")
	txn.Discard()
	for _, b := range append(lent, value) {
		dead("after the transaction", b)
	}
}
