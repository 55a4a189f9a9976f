package brock

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/tombstone"
)

// flat is an engine over a slice of n keys that costs next to nothing, so that
// what is measured is the root.
type flat struct {
	engine
	entries []entry.Entry
}

func newFlat(t testing.TB, n int) *DB {
	f := &flat{}
	for i := range n {
		f.entries = append(f.entries, entry.Entry{Key: flatKey(i), Value: make([]byte, 128), Version: 1, Kind: entry.Set})
	}
	return newDB(Options{InMemory: true}.withDefaults(), f, nil, 42)
}

func flatKey(i int) []byte { return append([]byte{0}, fmt.Sprintf("key %018d", i)...) }

func (f *flat) Keyspaces() []manifest.Keyspace                           { return nil }
func (f *flat) Acquire(entry.Version) (pin, error)                       { return f, nil }
func (f *flat) Release()                                                 {}
func (f *flat) Close() error                                             { return nil }
func (f *flat) Version() entry.Version                                   { return 1 }
func (f *flat) From(uintptr)                                             {}
func (f *flat) Value(_ []byte, e *entry.Entry, _ []byte) ([]byte, error) { return e.Value, nil }
func (f *flat) Touch(*entry.Entry) bool                                  { return true }
func (f *flat) Holds(entry.KeyspaceID) bool                              { return true }
func (f *flat) Floor(entry.KeyspaceID) entry.Version                     { return 0 }
func (f *flat) Cover(bool) *tombstone.Cover                              { return nil }
func (f *flat) Jump(*entry.Entry) uint64                                 { return 0 }
func (f *flat) Iterator() iterator.Iterator                              { return &flatIterator{entries: f.entries} }
func (f *flat) Get(key []byte, dst *entry.Entry) (bool, error) {
	i := int(binary.BigEndian.Uint64(key[len(key)-8:])) % len(f.entries)
	*dst = f.entries[i]
	return true, nil
}

type flatIterator struct {
	entries []entry.Entry
	i       int
}

func (it *flatIterator) First() bool                       { it.i = 0; return true }
func (it *flatIterator) Last() bool                        { it.i = len(it.entries) - 1; return true }
func (it *flatIterator) SeekGE(_ []byte) bool              { return it.First() }
func (it *flatIterator) SeekLT(_ []byte) bool              { return it.Last() }
func (it *flatIterator) Next() bool                        { it.i++; return it.i < len(it.entries) }
func (it *flatIterator) Prev() bool                        { it.i--; return it.i >= 0 }
func (it *flatIterator) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *flatIterator) SkipLT([]byte, entry.Version) bool { return it.Prev() }
func (it *flatIterator) Entry() *entry.Entry               { return &it.entries[it.i] }
func (it *flatIterator) Err() error                        { return nil }
func (it *flatIterator) Close()                            {}

func BenchmarkViewGet(b *testing.B) {
	db := newFlat(b, 1000)
	key := flatKey(7)[1:]
	b.ReportAllocs()
	for b.Loop() {
		err := db.View(func(txn *Txn) error {
			it, err := txn.Get(key)
			if err == nil {
				_, err = it.Value()
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTxnGet(b *testing.B) {
	db := newFlat(b, 1000)
	key := flatKey(7)[1:]
	txn := db.NewTransaction(false)
	defer txn.Discard()
	b.ReportAllocs()
	for b.Loop() {
		it, err := txn.Get(key)
		if err == nil {
			_, err = it.Value()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDBGet(b *testing.B) {
	db := newFlat(b, 1000)
	key := flatKey(7)[1:]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Get(key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIterator(b *testing.B) {
	const n = 1000
	db := newFlat(b, n)
	for _, bench := range []struct {
		name string
		o    IteratorOptions
	}{
		{"forward", IteratorOptions{}},
		{"reverse", IteratorOptions{Reverse: true}},
		{"all versions", IteratorOptions{AllVersions: true}},
		{"prefix", IteratorOptions{Prefix: []byte("key 0")}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			txn := db.NewTransaction(false)
			defer txn.Discard()
			b.ReportAllocs()
			for i := 0; i < b.N; {
				it := txn.NewIterator(bench.o)
				for it.Rewind(); it.Valid() && i < b.N; it.Next() {
					i++
					if len(it.Item().Key()) == 0 {
						b.Fatal("no key")
					}
				}
				it.Close()
			}
		})
	}
	b.Run("source alone", func(b *testing.B) {
		txn := db.NewTransaction(false)
		defer txn.Discard()
		src := txn.pin.Iterator()
		for i := 0; i < b.N; {
			for ok := src.First(); ok && i < b.N; ok = src.Next() {
				i++
				if len(src.Entry().Key) == 0 {
					b.Fatal("no key")
				}
			}
		}
	})
	b.Run("seek and close", func(b *testing.B) {
		txn := db.NewTransaction(false)
		defer txn.Discard()
		b.ReportAllocs()
		for b.Loop() {
			it := txn.NewIterator(IteratorOptions{})
			it.Seek([]byte("key"))
			it.Close()
		}
	})
}

func BenchmarkUpdateSet(b *testing.B) {
	db, e := openFake(b, Options{Durability: Buffered})
	key, value := []byte("0123456789abcdef"), make([]byte, 100)
	e.discard = true
	b.ReportAllocs()
	for b.Loop() {
		if err := db.Update(func(txn *Txn) error { return txn.Set(key, value) }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTxnSet(b *testing.B) {
	db, _ := openFake(b, Options{})
	value := make([]byte, 100)
	var key [8]byte
	b.ReportAllocs()
	txn := db.NewTransaction(true)
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(key[:], uint64(i))
		if err := txn.Set(key[:], value); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			txn.Discard()
			txn = db.NewTransaction(true)
		}
	}
	txn.Discard()
}
