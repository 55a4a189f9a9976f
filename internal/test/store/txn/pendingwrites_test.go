package txn

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

func TestLastWriteOfATransactionWins(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	txn := db.NewTransaction(true)
	for i := range 100 {
		assert.OK(t, storetest.Put(txn, fmt.Sprintf("k%d=%d", i%7, i)))
	}
	assert.OK(t, storetest.Put(txn, "k3", "k3=last", "k4=x", "k4"))
	assert.OK(t, txn.Commit())
	m := db.Metrics()
	assert.Equal(t, "records written", m.Entries, 7)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "store", storetest.ShowItems(txn.All()), "k0=98 k1=99 k2=93 k3=last k5=96 k6=97")
		assert.Equal(t, "versions", storetest.ShowItems(txn.Versions([]byte("k3"))), "k3=last")
		return nil
	}))
}

// A key and value read from a pending write stay valid after further writes.
func TestReadPendingWritesStay(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	txn := db.NewTransaction(true)
	defer txn.Discard()
	assert.OK(t, storetest.Put(txn, "k=first"))
	it, err := txn.Get([]byte("k"))
	assert.OK(t, err)
	v, err := it.Value()
	assert.OK(t, err)
	for i := range 1000 {
		assert.OK(t, storetest.Put(txn, "k=other", fmt.Sprintf("k%d=other", i)))
	}
	assert.Equal(t, "value", string(v), "first")
	assert.Equal(t, "key", string(it.Key()), "k")
	assert.Equal(t, "now", storetest.Get(txn, "k"), "other")
}

// Items of a transaction stay valid, however many follow them.
func TestManyItemsStay(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for i := range 300 {
		storetest.Set(t, db, fmt.Sprintf("key %d=value %d", i, i))
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		var items []*brock.Item
		for i := range 300 {
			it, err := txn.Get([]byte(fmt.Sprintf("key %d", i)))
			assert.OK(t, err)
			items = append(items, it)
		}
		for i, it := range items {
			assert.Equal(t, "key", string(it.Key()), fmt.Sprintf("key %d", i))
			assert.Equal(t, "value", string(assert.Must(it.Value())), fmt.Sprintf("value %d", i))
		}
		return nil
	}))
}
