//go:build brockdebug

package read

import (
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// With -tags brockdebug, keys and values are overwritten when their lifetime ends,
// and not before.
func TestPoison(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 4}})
	storetest.Set(t, db, "a=1", "b=separated")
	dead := func(what string, b []byte) {
		t.Helper()
		assert.Equal(t, what, string(b), strings.Repeat("\xdb", len(b)))
	}
	txn := db.NewTransaction(true)
	assert.OK(t, storetest.Put(txn, "c=pending"))
	var lent [][]byte
	for _, key := range []string{"a", "b", "c"} {
		it, err := txn.Get([]byte(key))
		assert.OK(t, err)
		assert.Equal(t, "key", string(it.Key()), key)
		lent = append(lent, it.Key(), assert.Must(it.Value()))
	}
	it := txn.NewIterator(brock.IteratorOptions{})
	it.Rewind()
	first, value := it.Item().Key(), assert.Must(it.Item().Value())
	assert.Equal(t, "alive", string(first), "a")
	it.Next()
	dead("key after a move", first)
	assert.Equal(t, "value after a move", string(value), "1")
	second := it.Item().Key()
	it.Close()
	dead("key after Close", second)
	assert.Equal(t, "of Get", string(lent[3]), "separated")
	txn.Discard()
	for _, b := range append(lent, value) {
		dead("after the transaction", b)
	}
}
