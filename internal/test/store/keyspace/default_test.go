package keyspace

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// usesKeyspace does with ks what DB does with the default keyspace.
func usesKeyspace(t *testing.T, ks *brock.Keyspace) {
	t.Helper()
	ctx := t.Context()
	assert.OK(t, ks.BatchSet([]*brock.Entry{brock.NewEntry([]byte("a/1"), []byte("1")), brock.NewEntry([]byte("b/1"), []byte("2")), brock.NewEntry([]byte("c"), nil)}))
	batch := ks.NewBatch()
	assert.OK(t, errors.Join(batch.Set([]byte("a/2"), []byte("3")), batch.Set([]byte("d"), nil)))
	version := assert.Must(batch.Commit(ctx, brock.Synced))
	o := brock.TxnOptions{Durability: brock.Buffered}
	assert.OK(t, ks.UpdateContext(ctx, o, func(txn *brock.Txn) error { return storetest.Put(txn, "e=5") }))
	assert.OK(t, ks.ViewContext(ctx, brock.TxnOptions{ReadAt: version}, func(txn *brock.Txn) error {
		assert.Equal(t, "at the batch's version", storetest.Get(txn, "a/2")+storetest.Get(txn, "e"), "3-")
		return nil
	}))
	assert.OK(t, ks.DropPrefix(ctx, []byte("a/"), []byte("b/")))
	entries, _ := ks.EstimateSize(brock.PrefixRange([]byte("c")))
	assert.Equal(t, "entries of a prefix", entries, 1)
	assert.OK(t, ks.Update(func(txn *brock.Txn) error { return txn.DeletePrefix([]byte("c")) }))
	w := ks.NewWriter(ctx)
	assert.OK(t, errors.Join(w.Set([]byte("f"), nil), w.Close()))
}

// The default keyspace is used as any other: all calls reach its keys and no others, and calls of
// a named one leave the default one alone.
func TestKeyspacesHaveWhatTheStoreHas(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: 1 << 40}}})
	named := storetest.OpenKeyspace(t, db, "n")
	storetest.Set(t, db, "a/9=9")
	usesKeyspace(t, named)
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "a/9=9; n: d= e=5 f=")
	assert.OK(t, named.Clear(t.Context()))
	assert.OK(t, named.Set([]byte("a/9"), []byte("9")))
	usesKeyspace(t, db.Default())
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "d= e=5 f=; n: a/9=9")
	assert.Equal(t, "name", db.Default().Name(), "")
	first := db.Default()
	assert.Equal(t, "the same each time", db.Default() == first, true)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "In of it", storetest.Get(txn.In(named).In(db.Default()), "e"), "5")
		return nil
	}))
	for ks := range db.Keyspaces() {
		assert.Equal(t, "it is not listed: it has no name", ks.Name(), "n")
	}
}

// What the default keyspace can't do is refused, and changes nothing.
func TestDefaultKeyspaceStays(t *testing.T) {
	o := brock.Options{Dir: "/s", FS: vfs.NewMem(), KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 77}}
	db, other := assert.Must(brock.Open(o)), storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1")
	ks := db.Default()
	assert.Error(t, "drop", ks.Drop(t.Context()), brock.ErrInvalid)
	assert.Error(t, "options", ks.SetOptions(brock.KeyspaceOptions{ValueThreshold: 5}), brock.ErrInvalid)
	assert.Equal(t, "options", ks.Options().ValueThreshold, 77)
	assert.Error(t, "of another store", other.Update(func(txn *brock.Txn) error { return txn.In(ks).DeletePrefix(nil) }), brock.ErrInvalid)
	assert.Error(t, "of another store", other.NewBatch().In(ks).Set([]byte("k"), nil), brock.ErrInvalid)
	assert.OK(t, db.Close())
	for name, err := range everyCall(t, ks) {
		assert.Error(t, "closed: "+name, err, brock.ErrClosed)
	}
	for name, err := range everyCall(t, new(brock.DB).Default()) {
		assert.Error(t, "never opened: "+name, err, brock.ErrClosed)
	}
	o.Mode = brock.ReadOnly
	db = assert.Must(brock.Open(o))
	defer db.Close()
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "a=1")
	assert.Error(t, "read-only: BatchSet", db.Default().BatchSet(nil), brock.ErrReadOnly)
	assert.Error(t, "read-only: DropPrefix", db.Default().DropPrefix(t.Context(), nil), brock.ErrReadOnly)
}

// everyCall returns the errors of all calls of a keyspace that can return one.
func everyCall(t *testing.T, ks *brock.Keyspace) map[string]error {
	t.Helper()
	ctx, nothing := t.Context(), func(*brock.Txn) error { return nil }
	return map[string]error{
		"BatchSet":      ks.BatchSet(nil),
		"NewBatch":      ks.NewBatch().Set([]byte("k"), nil),
		"UpdateContext": ks.UpdateContext(ctx, brock.TxnOptions{}, nothing),
		"ViewContext":   ks.ViewContext(ctx, brock.TxnOptions{}, nothing),
		"DropPrefix":    ks.DropPrefix(ctx, nil),
		"Clear":         ks.Clear(ctx),
		"Drop":          ks.Drop(ctx),
		"SetOptions":    ks.SetOptions(brock.KeyspaceOptions{}),
		"Set":           ks.Set([]byte("k"), nil),
		"Get":           assert.ErrorOf(ks.Get([]byte("k"))),
		"NewWriter":     ks.NewWriter(ctx).Set([]byte("k"), nil),
	}
}

func TestCallsOfADroppedKeyspace(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ks := storetest.OpenKeyspace(t, db, "ks")
	batch := ks.NewBatch()
	assert.OK(t, batch.Set([]byte("k"), nil))
	assert.OK(t, ks.Drop(t.Context()))
	for name, err := range everyCall(t, ks) {
		assert.Error(t, name, err, brock.ErrKeyspaceNotFound)
	}
	assert.Error(t, "a batch from before", assert.ErrorOf(batch.Commit(t.Context(), 0)), brock.ErrKeyspaceNotFound)
}

// A prefix is a range: it has the keys with the prefix, and none besides.
func TestPrefixRange(t *testing.T) {
	for _, tc := range []struct{ prefix, lo, hi string }{
		{"", `""`, "none"}, {"a", `"a"`, `"b"`}, {"a\xff", `"a\xff"`, `"b"`}, {"\xff\xff", `"\xff\xff"`, "none"}, {"a\x00", `"a\x00"`, `"a\x01"`},
	} {
		lo, hi := brock.PrefixRange([]byte(tc.prefix))
		got := "none"
		if hi != nil {
			got = fmt.Sprintf("%q", hi)
		}
		assert.Equal(t, "range of "+tc.prefix, fmt.Sprintf("%q", lo)+got, tc.lo+tc.hi)
	}
	lo, hi := brock.PrefixRange(nil)
	assert.Equal(t, "no prefix, no bounds", lo == nil && hi == nil, true)
}

// DeletePrefix takes what was there and what the transaction has written, and no neighbours; a
// refused call leaves the transaction usable.
func TestDeletePrefix(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ks := storetest.OpenKeyspace(t, db, "ks")
	for _, in := range []*brock.Keyspace{nil, ks} {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			return storetest.Put(txn.In(in), "o=0", "p=1", "p\x00=2", "p\xff=3", "q=4", "\xff=5", "\xff\xff=6")
		}))
	}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.Error(t, "long", txn.DeletePrefix(make([]byte, brock.MaxKeySize+1)), brock.ErrKeyTooLarge)
		in := txn.In(ks)
		return errors.Join(storetest.Put(in, "pp=7"), in.DeletePrefix([]byte("p")), in.DeletePrefix([]byte{0xff}), storetest.Put(in, "p\x01=8"))
	}))
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "o=0 p=1 p\x00=2 p\xff=3 q=4 \xff=5 \xff\xff=6; ks: o=0 p\x01=8 q=4")
	assert.Error(t, "read-only", db.View(func(txn *brock.Txn) error { return txn.DeletePrefix([]byte("p")) }), brock.ErrReadOnly)
	assert.Error(t, "ended", new(brock.Txn).DeletePrefix([]byte("p")), brock.ErrTxnDone)
}
