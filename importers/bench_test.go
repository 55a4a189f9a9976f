package importers

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock"
)

const (
	benchPairs     = 50_000
	benchValueSize = 400
)

// benchSource writes a bbolt file and returns the bytes of its pairs.
func benchSource(b *testing.B, path string) int64 {
	b.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte("pairs"))
		for i := 0; i < benchPairs && err == nil; i++ {
			key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
			err = bucket.Put(key, make([]byte, benchValueSize))
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return benchPairs * (8 + benchValueSize)
}

// BenchmarkImport compares an import, with its compare, with the loop that users write by hand, without
// one.
func BenchmarkImport(b *testing.B) {
	dir := b.TempDir()
	source := filepath.Join(dir, "source")
	bytes := benchSource(b, source)
	n := 0
	fresh := func() string { n++; return filepath.Join(dir, fmt.Sprint(n)) }
	b.Run("import", func(b *testing.B) {
		b.SetBytes(bytes)
		for b.Loop() {
			o := Options{Peer: Bbolt, Source: source, Store: brock.Options{Dir: fresh()}}
			if _, err := Import(b.Context(), o); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, set := range map[string]func(*brock.Keyspace, *bolt.Bucket) error{
		"by hand, Writer": func(ks *brock.Keyspace, from *bolt.Bucket) error {
			w := ks.NewWriter(b.Context())
			if err := from.ForEach(w.Set); err != nil {
				return err
			}
			return w.Close()
		},
		"by hand, Update": func(ks *brock.Keyspace, from *bolt.Bucket) error {
			const each = 1000
			c := from.Cursor()
			k, v := c.First()
			for k != nil {
				err := ks.Update(func(txn *brock.Txn) error {
					for i := 0; i < each && k != nil; i++ {
						if err := txn.Set(k, v); err != nil {
							return err
						}
						k, v = c.Next()
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				byHand(b, source, fresh(), set)
			}
		})
	}
}

func byHand(b *testing.B, source, dir string, set func(*brock.Keyspace, *bolt.Bucket) error) {
	b.Helper()
	from, err := bolt.Open(source, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	ks, err := db.Keyspace("pairs")
	if err != nil {
		b.Fatal(err)
	}
	if err := from.View(func(tx *bolt.Tx) error { return set(ks, tx.Bucket([]byte("pairs"))) }); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
