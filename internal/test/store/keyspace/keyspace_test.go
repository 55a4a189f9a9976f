// Package keyspace tests keyspaces: their keys, options, retention and end.
package keyspace

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// In of a transaction or batch that is in a keyspace leads to any other, and In of
// nil back to the default one.
func TestInLeadsToAnyKeyspace(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	a, z := storetest.OpenKeyspace(t, db, "a"), storetest.OpenKeyspace(t, db, "z")
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		return errors.Join(storetest.Put(txn.In(a).In(nil), "k=1", "l=1"), storetest.Put(txn.In(a).In(z), "k=2"))
	}))
	assert.Equal(t, "version", db.Version(), 3) // a keyspace that is made takes one, too
	batch := db.NewBatch()
	assert.OK(t, errors.Join(batch.In(z).Set([]byte("b"), []byte("3")), batch.In(z).In(nil).Delete([]byte("l"))))
	assert.Equal(t, "writes, whichever keyspace is asked", batch.In(a).Len(), 2)
	assert.Must(batch.In(z).Commit(t.Context(), 0))
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "k=1; a: ; z: b=3 k=2")
}

// An iterator never leaves its keyspace, in any direction and with any bounds. The
// keyspaces have neighbouring prefixes, of one byte and of two.
func TestIteratorsStayInTheirKeyspace(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	var list []*brock.Keyspace
	for i := range 260 { // numbers 1 to 260
		list = append(list, storetest.OpenKeyspace(t, db, fmt.Sprint("ks", i+1)))
	}
	for _, ks := range append([]*brock.Keyspace{nil}, list...) {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			txn = txn.In(ks)
			return errors.Join(txn.Set(nil, nil), txn.Set([]byte{0}, nil), txn.Set([]byte{0xff}, nil), txn.Set([]byte{0xff, 0xff, 0xff}, nil), txn.Set([]byte("m"), nil))
		}))
	}
	forward := []string{"", "\x00", "m", "\xff", "\xff\xff\xff"}
	for round := range 2 {
		for _, n := range []int{0, 1, 2, 246, 247, 248, 249, 259, 260} {
			var ks *brock.Keyspace
			if n > 0 {
				ks = list[n-1]
			}
			for _, update := range []bool{false, true} {
				txn := db.NewTransaction(update)
				in := txn.In(ks)
				if update {
					assert.OK(t, errors.Join(in.Delete([]byte("m")), in.Set([]byte("m"), nil)))
				}
				for o, want := range map[*brock.IteratorOptions][]string{
					{}:                                   forward,
					{Reverse: true}:                      {forward[4], forward[3], forward[2], forward[1], forward[0]},
					{Upper: []byte{0xff, 0xff}}:          forward[:4],
					{Upper: []byte{0}}:                   forward[:1],
					{Upper: []byte{}}:                    nil,
					{Lower: []byte{}, Reverse: true}:     {forward[4], forward[3], forward[2], forward[1], forward[0]},
					{Prefix: []byte{0xff}}:               forward[3:],
					{Prefix: []byte{0xff, 0xff}}:         forward[4:],
					{Lower: []byte("a"), KeysOnly: true}: forward[2:],
				} {
					it := in.NewIterator(*o)
					var got []string
					for it.Rewind(); it.Valid(); it.Next() {
						got = append(got, string(it.Item().Key()))
					}
					assert.OK(t, it.Err())
					assert.Equal(t, fmt.Sprintf("keyspace %d, %+v", n, *o), fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
					it.Seek([]byte{0xff, 0xff, 0xff, 0xff})
					it.Seek([]byte{0})
					it.Prev()
					assert.OK(t, it.Close())
				}
				txn.Discard()
			}
			if n > 0 {
				entries, _ := ks.EstimateSize(nil, nil)
				if round == 0 && entries != 5 || entries > 50 {
					t.Errorf("round %d: keyspace %d has about %d entries", round, n, entries)
				}
			}
		}
		assert.OK(t, db.Compact(t.Context()))
	}
}

func TestKeyspaceMisuse(t *testing.T) {
	db, other := storetest.Open(t, brock.Options{}), storetest.Open(t, brock.Options{})
	for _, name := range []string{"", strings.Repeat("n", brock.MaxKeyspaceName+1)} {
		_, err := db.Keyspace(name)
		assert.Error(t, "name", err, brock.ErrInvalid)
	}
	storetest.OpenKeyspace(t, db, strings.Repeat("\xff", brock.MaxKeyspaceName))
	_, err := db.Keyspace("two", brock.KeyspaceOptions{}, brock.KeyspaceOptions{})
	assert.Error(t, "two options", err, brock.ErrInvalid)
	foreign := storetest.OpenKeyspace(t, other, "foreign")
	for call, fn := range storetest.TxnCalls {
		if call != "Commit" {
			assert.OK(t, db.Update(func(txn *brock.Txn) error { assert.Error(t, call, fn(txn.In(foreign)), brock.ErrInvalid); return nil }))
			assert.Error(t, call, fn(new(brock.Txn).In(foreign)), brock.ErrTxnDone)
			assert.Error(t, call, fn(new(brock.Txn).In(nil)), brock.ErrTxnDone)
		}
	}
	assert.Error(t, "foreign batch", db.NewBatch().In(foreign).Set([]byte("k"), nil), brock.ErrInvalid)
	assert.Error(t, "zero batch", new(brock.Batch).In(foreign).Set([]byte("k"), nil), brock.ErrClosed)
	var zero brock.Keyspace
	assert.Error(t, "zero: set", zero.Set([]byte("k"), nil), brock.ErrClosed)
	assert.Error(t, "zero: drop", zero.Drop(t.Context()), brock.ErrClosed)
	assert.Error(t, "zero: writer", zero.NewWriter(t.Context()).Set([]byte("k"), nil), brock.ErrClosed)
	assert.Error(t, "zero: in", db.View(func(txn *brock.Txn) error { return assert.LastError(txn.In(&zero).All()) }), brock.ErrInvalid)
	assert.Equal(t, "zero", fmt.Sprint(zero.Name(), zero.Options()), fmt.Sprint("", brock.KeyspaceOptions{}))
	ks := storetest.OpenKeyspace(t, db, "ks")
	long := make([]byte, brock.MaxKeySize+1)
	assert.OK(t, ks.Set(long[1:], nil))
	assert.Error(t, "key", ks.Set(long, nil), brock.ErrKeyTooLarge)
	assert.OK(t, db.Compact(t.Context()))
	assert.Equal(t, "longest key", assert.Must(ks.Has(long[1:])), true)
	assert.OK(t, db.Close())
	assert.Error(t, "closed: set", ks.Set([]byte("k"), nil), brock.ErrClosed)
	assert.Error(t, "closed: drop", ks.Drop(t.Context()), brock.ErrClosed)
	assert.Error(t, "closed: options", ks.SetOptions(brock.KeyspaceOptions{}), brock.ErrClosed)
	_, err = db.Keyspace("ks")
	assert.Error(t, "closed: open", err, brock.ErrClosed)
}

// A keyspace compresses by its own options, also after the store was opened again.
func TestCompressionOfKeyspaces(t *testing.T) {
	o := brock.Options{Dir: "/s", FS: vfs.NewMem(), KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2}}
	db := assert.Must(brock.Open(o))
	defer func() { db.Close() }()
	value := bytes.Repeat([]byte("again and "), 1000)
	assert.Must(db.Keyspace("zstd", brock.KeyspaceOptions{Compression: brock.Zstd, CompressAbove: 100}))
	assert.Must(db.Keyspace("none", brock.KeyspaceOptions{Compression: brock.NoCompression}))
	storetest.OpenKeyspace(t, db, "as usual")
	for range 2 {
		for ks := range db.Keyspaces() {
			before := db.Metrics()
			assert.OK(t, ks.Set([]byte("k"), value))
			from := db.Metrics().CompressedFrom - before.CompressedFrom
			assert.Equal(t, ks.Name()+" compresses", from > 0, ks.Name() != "none")
			assert.Equal(t, ks.Name(), string(assert.Must(ks.Get([]byte("k")))), string(value))
			assert.OK(t, db.View(func(txn *brock.Txn) error {
				assert.Equal(t, "size", assert.Must(txn.In(ks).Get([]byte("k"))).ValueSize(), int64(len(value)))
				return nil
			}))
		}
		assert.OK(t, db.Close())
		o.KeyspaceDefaults.Compression = brock.NoCompression
		db = assert.Must(brock.Open(o))
	}
	assert.Equal(t, "options", assert.Must(db.Keyspace("zstd")).Options().Compression, brock.Zstd)
	assert.OK(t, db.Verify(t.Context(), nil))
}
