package brockds_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	badger4 "github.com/ipfs/go-ds-badger4"
	leveldb "github.com/ipfs/go-ds-leveldb"

	"github.com/brockdb/brock"
	brockds "github.com/brockdb/brock/integrations/datastore"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// stores are what is compared. Stores of one durability stand side by side: without a sync for each
// write, and with one, which leveldb's has always.
var stores = []struct {
	name   string
	synced bool
	open   func(dir string) (ds.Batching, error)
}{
	{"brock", false, func(dir string) (ds.Batching, error) { return brockds.Open(brock.Options{Dir: dir}) }},
	{"badger4", false, func(dir string) (ds.Batching, error) { return badger4.NewDatastore(dir, nil) }},
	{"brock-synced", true, func(dir string) (ds.Batching, error) {
		return brockds.Open(brock.Options{Dir: dir, Durability: brock.Synced})
	}},
	{"leveldb-synced", true, func(dir string) (ds.Batching, error) { return leveldb.NewDatastore(dir, nil) }},
}

// blockKey looks like that of an IPFS block: of a hash, so in no order.
func blockKey(n int) ds.Key {
	rng := rand.New(rand.NewPCG(uint64(n), 0))
	return ds.RawKey(fmt.Sprintf("/blocks/CIQ%016X%016X%016X", rng.Uint64(), rng.Uint64(), rng.Uint64()))
}

// value is random bytes, which nothing can compress; that of n differs from that of n+1.
func value(size int) func(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]byte, size+64)
	for i := range all {
		all[i] = byte(rng.Uint32())
	}
	return func(n int) []byte { return all[n%64:][:size] }
}

// Benchmark measures what IPFS and libp2p do: blocks of 256 KiB in batches, records of 200 bytes one
// by one, reads of what is there and of what is not, and the list of all keys.
func Benchmark(b *testing.B) {
	ctx := context.Background()
	for _, size := range []int{200, 256 << 10} {
		filled := min(20_000, 64<<20/size) // entries that reads find
		content := value(size)
		for _, s := range stores {
			run := func(name string, fill int, fn func(b *testing.B, d ds.Batching)) {
				b.Run(fmt.Sprintf("%s/%dB/%s", name, size, s.name), func(b *testing.B) {
					d, err := s.open(b.TempDir())
					assert.OK(b, err)
					defer d.Close()
					for n := 0; n < fill; {
						batch, err := d.Batch(ctx)
						assert.OK(b, err)
						for end := min(n+64, fill); n < end; n++ {
							assert.OK(b, batch.Put(ctx, blockKey(n), content(n)))
						}
						assert.OK(b, batch.Commit(ctx))
					}
					assert.OK(b, d.Sync(ctx, ds.NewKey("/")))
					b.SetBytes(int64(size))
					b.ReportAllocs()
					b.ResetTimer()
					fn(b, d)
				})
			}
			run("put", 0, func(b *testing.B, d ds.Batching) {
				for n := range b.N {
					assert.OK(b, d.Put(ctx, blockKey(n), content(n)))
				}
			})
			run("batch-of-64", 0, func(b *testing.B, d ds.Batching) {
				for n := 0; n < b.N; {
					batch, err := d.Batch(ctx)
					assert.OK(b, err)
					for end := min(n+64, b.N); n < end; n++ {
						assert.OK(b, batch.Put(ctx, blockKey(n), content(n)))
					}
					assert.OK(b, batch.Commit(ctx))
				}
				assert.OK(b, d.Sync(ctx, ds.NewKey("/")))
			})
			if s.synced {
				continue // reads are the same as without
			}
			run("get", filled, func(b *testing.B, d ds.Batching) {
				for n := range b.N {
					got, err := d.Get(ctx, blockKey(n%filled))
					if err != nil || len(got) != size {
						b.Fatal(len(got), err)
					}
				}
			})
			run("has-not", filled, func(b *testing.B, d ds.Batching) {
				for n := range b.N {
					if found, err := d.Has(ctx, blockKey(filled+n)); err != nil || found {
						b.Fatal(found, err)
					}
				}
			})
			run("get-size", filled, func(b *testing.B, d ds.Batching) {
				for n := range b.N {
					if got, err := d.GetSize(ctx, blockKey(n%filled)); err != nil || got != size {
						b.Fatal(got, err)
					}
				}
			})
			run("list-a-key", filled, func(b *testing.B, d ds.Batching) {
				for n := 0; n < b.N; {
					q := query.Query{Prefix: "/blocks", KeysOnly: true}
					for _, err := range ds.QueryIter(ctx, d, q) {
						assert.OK(b, err)
						if n++; n == b.N {
							break
						}
					}
				}
			})
		}
	}
}
