package brockethdb_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/leveldb"
	"github.com/ethereum/go-ethereum/ethdb/pebble"

	"github.com/brockdb/brock"
	brockethdb "github.com/brockdb/brock/integrations/ethdb"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// stores are what is compared, with 256 MB of memory each. None of them waits for the disk.
var stores = []struct {
	name string
	open func(dir string) (ethdb.KeyValueStore, error)
}{
	{"brock", func(dir string) (ethdb.KeyValueStore, error) { return brockethdb.Open(brock.Options{Dir: dir}) }},
	{"pebble", func(dir string) (ethdb.KeyValueStore, error) { return pebble.New(dir, 256, 256, "", false) }},
	{"leveldb", func(dir string) (ethdb.KeyValueStore, error) { return leveldb.New(dir, 256, 256, "", false) }},
}

// nodeKey looks like that of a trie node: of a hash, so in no order.
func nodeKey(n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 0))
	key := make([]byte, 0, 32)
	for range 4 {
		key = binary.BigEndian.AppendUint64(key, rng.Uint64())
	}
	return key
}

// Benchmark measures what a node does: batches of about 100 KB of values of 100 bytes (trie nodes) and
// of 2000 (receipts), reads, the walk over keys, and the delete of a range.
func Benchmark(b *testing.B) {
	for _, size := range []int{100, 2000} {
		filled := min(100_000, 100_000_000/size) // pairs that reads find
		for _, s := range stores {
			run := func(name string, fill int, fn func(b *testing.B, db ethdb.KeyValueStore)) {
				b.Run(fmt.Sprintf("%s/%dB/%s", name, size, s.name), func(b *testing.B) {
					db, err := s.open(b.TempDir())
					assert.OK(b, err)
					defer db.Close()
					write(b, db, fill, size)
					b.ReportAllocs()
					b.ResetTimer()
					fn(b, db)
				})
			}
			run("batch", 0, func(b *testing.B, db ethdb.KeyValueStore) { write(b, db, b.N, size) })
			run("get", filled, func(b *testing.B, db ethdb.KeyValueStore) {
				for n := range b.N {
					value, err := db.Get(nodeKey(n % filled))
					if err != nil || len(value) != size {
						b.Fatal(len(value), err)
					}
				}
			})
			run("has-not", filled, func(b *testing.B, db ethdb.KeyValueStore) {
				for n := range b.N {
					if found, err := db.Has(nodeKey(filled + n)); err != nil || found {
						b.Fatal(found, err)
					}
				}
			})
			run("iterate", filled, func(b *testing.B, db ethdb.KeyValueStore) {
				for n := 0; n < b.N; {
					it := db.NewIterator(nil, nil)
					for ; n < b.N && it.Next(); n++ {
						if len(it.Value()) != size {
							b.Fatal(len(it.Value()))
						}
					}
					assert.OK(b, it.Error())
					it.Release()
				}
			})
			run("delete-256th", filled, func(b *testing.B, db ethdb.KeyValueStore) {
				for n := range b.N {
					assert.OK(b, db.DeleteRange([]byte{byte(n)}, []byte{byte(n), 0xff, 0xff, 0xff}))
				}
			})
		}
	}
}

// write puts n pairs in batches of the size that go-ethereum calls ideal.
func write(b *testing.B, db ethdb.KeyValueStore, n, size int) {
	value, batch := make([]byte, size), db.NewBatch()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		for at := 0; at+8 <= size; at += 8 {
			binary.LittleEndian.PutUint64(value[at:], rng.Uint64())
		}
		assert.OK(b, batch.Put(nodeKey(i), value))
		if batch.ValueSize() >= ethdb.IdealBatchSize || i == n-1 {
			assert.OK(b, batch.Write())
			batch.Reset()
		}
	}
}
