package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// In of a transaction or batch that is in a keyspace leads to any other, and In of
// nil back to the default one.
func TestInLeadsToAnyKeyspace(t *testing.T) {
	db := openTest(t, brock.Options{})
	a, z := keyspace(t, db, "a"), keyspace(t, db, "z")
	must(t, db.Update(func(txn *brock.Txn) error {
		return errors.Join(put(txn.In(a).In(nil), "k=1", "l=1"), put(txn.In(a).In(z), "k=2"))
	}))
	wantEqual(t, "version", db.Version(), 1)
	batch := db.NewBatch()
	must(t, errors.Join(batch.In(z).Set(b("b"), b("3")), batch.In(z).In(nil).Delete(b("l"))))
	wantEqual(t, "writes, whichever keyspace is asked", batch.In(a).Len(), 2)
	must2(batch.In(z).Commit(t.Context(), 0))
	wantEqual(t, "contents", contents(t, db), "k=1; a: ; z: b=3 k=2")
}

// An iterator never leaves its keyspace, in any direction and with any bounds. The
// keyspaces have neighbouring prefixes, of one byte and of two.
func TestIteratorsStayInTheirKeyspace(t *testing.T) {
	db := openTest(t, brock.Options{})
	var list []*brock.Keyspace
	for i := range 260 { // numbers 1 to 260
		list = append(list, keyspace(t, db, fmt.Sprint("ks", i+1)))
	}
	for _, ks := range append([]*brock.Keyspace{nil}, list...) {
		must(t, db.Update(func(txn *brock.Txn) error {
			txn = txn.In(ks)
			return errors.Join(txn.Set([]byte{0}, nil), txn.Set([]byte{0xff}, nil), txn.Set([]byte{0xff, 0xff, 0xff}, nil), txn.Set(b("m"), nil))
		}))
	}
	forward := []string{"\x00", "m", "\xff", "\xff\xff\xff"}
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
					must(t, errors.Join(in.Delete(b("m")), in.Set(b("m"), nil)))
				}
				for o, want := range map[*brock.IteratorOptions][]string{
					{}:                              forward,
					{Reverse: true}:                 {forward[3], forward[2], forward[1], forward[0]},
					{Upper: []byte{0xff, 0xff}}:     forward[:3],
					{Prefix: []byte{0xff}}:          forward[2:],
					{Prefix: []byte{0xff, 0xff}}:    forward[3:],
					{Lower: b("a"), KeysOnly: true}: forward[1:],
				} {
					it := in.NewIterator(*o)
					var got []string
					for it.Rewind(); it.Valid(); it.Next() {
						got = append(got, string(it.Item().Key()))
					}
					must(t, it.Err())
					wantEqual(t, fmt.Sprintf("keyspace %d, %+v", n, *o), fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
					it.Seek([]byte{0xff, 0xff, 0xff, 0xff})
					it.Seek([]byte{0})
					it.Prev()
					must(t, it.Close())
				}
				txn.Discard()
			}
			if n > 0 {
				entries, _ := ks.EstimateSize(nil, nil)
				if round == 0 && entries != 4 || entries > 40 {
					t.Errorf("round %d: keyspace %d has about %d entries", round, n, entries)
				}
			}
		}
		must(t, db.Compact(t.Context()))
	}
}

// Every call of a transaction in a dropped keyspace returns ErrKeyspaceNotFound. A
// cancelled Drop drops nothing.
func TestDropKeyspace(t *testing.T) {
	db := openTest(t, brock.Options{})
	ks, other := keyspace(t, db, "ks"), keyspace(t, db, "other")
	must(t, errors.Join(ks.Set(b("a"), b("1")), other.Set(b("a"), b("1"))))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "cancelled", ks.Drop(cancelled), context.Canceled)
	wantEqual(t, "names", names(db), "ks other")
	must(t, ks.Drop(t.Context()))
	wantEqual(t, "names", names(db), "other")
	wantErr(t, "View", ks.View(func(*brock.Txn) error { return nil }), brock.ErrKeyspaceNotFound)
	wantErr(t, "Update", ks.Update(func(*brock.Txn) error { return nil }), brock.ErrKeyspaceNotFound)
	for call, fn := range calls {
		if call != "Commit" {
			must(t, db.Update(func(txn *brock.Txn) error {
				wantErr(t, call, fn(txn.In(ks)), brock.ErrKeyspaceNotFound)
				return nil
			}))
		}
	}
}

// A transaction that writes to a keyspace while others drop it and make it anew is
// in it as a whole or refused, and never in its successor.
func TestDropBesideWriters(t *testing.T) {
	db := openTest(t, brock.Options{Tuning: brock.Tuning{MemtableSize: 64 << 10}})
	const writers = 4
	done := make(chan error, writers)
	stop := make(chan struct{})
	for w := range writers {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				ks, err := db.Keyspace("ks")
				if err != nil {
					done <- err
					return
				}
				key := fmt.Appendf(nil, "%d/%d", w, i)
				err = db.Update(func(txn *brock.Txn) error {
					return errors.Join(txn.Set(key, nil), txn.In(ks).Set(key, []byte(strings.Repeat("x", 500))))
				})
				if err != nil && !errors.Is(err, brock.ErrKeyspaceNotFound) {
					done <- err
					return
				}
				has, herr := db.Has(key)
				if herr != nil || has != (err == nil) {
					done <- fmt.Errorf("%s: commit %v, half of it there: %v %v", key, err, has, herr)
					return
				}
			}
		}()
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		ks := keyspace(t, db, "ks")
		for range rng.IntN(30) {
			must(t, ks.View(func(txn *brock.Txn) error { return last(txn.All()) }))
		}
		must(t, ks.Drop(t.Context()))
		if _, err := ks.Get(b("0/0")); !errors.Is(err, brock.ErrKeyspaceNotFound) {
			t.Fatal(err)
		}
	}
	close(stop)
	for range writers {
		must(t, <-done)
	}
	ks := keyspace(t, db, "ks")
	must(t, ks.Drop(t.Context()))
	wantEqual(t, "successor", show(func(yield func(*brock.Item, error) bool) {
		must(t, keyspace(t, db, "ks").View(func(txn *brock.Txn) error { txn.All()(yield); return nil }))
	}), "")
}

func TestKeyspaceMisuse(t *testing.T) {
	db, other := openTest(t, brock.Options{}), openTest(t, brock.Options{})
	for _, name := range []string{"", strings.Repeat("n", brock.MaxKeyspaceName+1)} {
		_, err := db.Keyspace(name)
		wantErr(t, "name", err, brock.ErrInvalid)
	}
	keyspace(t, db, strings.Repeat("\xff", brock.MaxKeyspaceName))
	_, err := db.Keyspace("two", brock.KeyspaceOptions{}, brock.KeyspaceOptions{})
	wantErr(t, "two options", err, brock.ErrInvalid)
	foreign := keyspace(t, other, "foreign")
	for call, fn := range calls {
		if call != "Commit" {
			must(t, db.Update(func(txn *brock.Txn) error { wantErr(t, call, fn(txn.In(foreign)), brock.ErrInvalid); return nil }))
			wantErr(t, call, fn(new(brock.Txn).In(foreign)), brock.ErrTxnDone)
			wantErr(t, call, fn(new(brock.Txn).In(nil)), brock.ErrTxnDone)
		}
	}
	wantErr(t, "foreign batch", db.NewBatch().In(foreign).Set(b("k"), nil), brock.ErrInvalid)
	wantErr(t, "zero batch", new(brock.Batch).In(foreign).Set(b("k"), nil), brock.ErrClosed)
	var zero brock.Keyspace
	wantErr(t, "zero: set", zero.Set(b("k"), nil), brock.ErrClosed)
	wantErr(t, "zero: drop", zero.Drop(t.Context()), brock.ErrClosed)
	wantErr(t, "zero: writer", zero.NewWriter(t.Context()).Set(b("k"), nil), brock.ErrClosed)
	wantErr(t, "zero: in", db.View(func(txn *brock.Txn) error { return last(txn.In(&zero).All()) }), brock.ErrInvalid)
	wantEqual(t, "zero", fmt.Sprint(zero.Name(), zero.Options()), fmt.Sprint("", brock.KeyspaceOptions{}))
	ks := keyspace(t, db, "ks")
	long := make([]byte, brock.MaxKeySize+1)
	must(t, ks.Set(long[1:], nil))
	wantErr(t, "key", ks.Set(long, nil), brock.ErrKeyTooLarge)
	must(t, db.Compact(t.Context()))
	wantEqual(t, "longest key", must2(ks.Has(long[1:])), true)
	wantErr(t, "empty key", ks.Set(nil, nil), brock.ErrEmptyKey)
	must(t, db.Close())
	wantErr(t, "closed: set", ks.Set(b("k"), nil), brock.ErrClosed)
	wantErr(t, "closed: drop", ks.Drop(t.Context()), brock.ErrClosed)
	wantErr(t, "closed: options", ks.SetOptions(brock.KeyspaceOptions{}), brock.ErrClosed)
	_, err = db.Keyspace("ks")
	wantErr(t, "closed: open", err, brock.ErrClosed)
}

// A keyspace compresses by its own options, also after the store was opened again.
func TestCompressionOfKeyspaces(t *testing.T) {
	o := brock.Options{Dir: "/s", FS: vfs.NewMem(), KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2}}
	db := must2(brock.Open(o))
	defer func() { db.Close() }()
	value := bytes.Repeat([]byte("again and "), 1000)
	must2(db.Keyspace("zstd", brock.KeyspaceOptions{Compression: brock.Zstd, CompressAbove: 100}))
	must2(db.Keyspace("none", brock.KeyspaceOptions{Compression: brock.NoCompression}))
	keyspace(t, db, "as usual")
	for range 2 {
		for ks := range db.Keyspaces() {
			before := db.Metrics()
			must(t, ks.Set(b("k"), value))
			from := db.Metrics().CompressedFrom - before.CompressedFrom
			wantEqual(t, ks.Name()+" compresses", from > 0, ks.Name() != "none")
			wantEqual(t, ks.Name(), string(must2(ks.Get(b("k")))), string(value))
			must(t, db.View(func(txn *brock.Txn) error {
				wantEqual(t, "size", must2(txn.In(ks).Get(b("k"))).ValueSize(), int64(len(value)))
				return nil
			}))
		}
		must(t, db.Close())
		o.KeyspaceDefaults.Compression = brock.NoCompression
		db = must2(brock.Open(o))
	}
	wantEqual(t, "options", must2(db.Keyspace("zstd")).Options().Compression, brock.Zstd)
	must(t, db.Verify(t.Context(), nil))
}
