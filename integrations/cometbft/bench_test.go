package brockcometbft_test

import (
	"fmt"
	"testing"

	db "github.com/cometbft/cometbft-db"

	"github.com/brockdb/brock"
	brockcometbft "github.com/brockdb/brock/integrations/cometbft"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// backends are what is compared.
var backends = []struct {
	name string
	open func(dir string) (db.DB, error)
}{
	{"brock", func(dir string) (db.DB, error) { return brockcometbft.Open("bench", dir, brock.Options{}) }},
	{"pebbledb", func(dir string) (db.DB, error) { return db.NewDB("bench", db.PebbleDBBackend, dir) }},
	{"goleveldb", func(dir string) (db.DB, error) { return db.NewDB("bench", db.GoLevelDBBackend, dir) }},
}

// Benchmark measures what a node does: blocks of 100 pairs of 1 KB in a synced batch, single sets and
// synced sets, reads, and the walk over a range.
func Benchmark(b *testing.B) {
	const filled = 20_000
	key := func(n int) []byte { return fmt.Appendf(nil, "block/%010d", n*7919%filled) }
	value := make([]byte, 1024)
	for _, backend := range backends {
		run := func(name string, fill int, fn func(b *testing.B, d db.DB)) {
			b.Run(name+"/"+backend.name, func(b *testing.B) {
				d, err := backend.open(b.TempDir())
				assert.OK(b, err)
				defer d.Close()
				for n := range fill {
					assert.OK(b, d.Set(key(n), value))
				}
				b.ReportAllocs()
				b.ResetTimer()
				fn(b, d)
			})
		}
		run("set", 0, func(b *testing.B, d db.DB) {
			for n := range b.N {
				assert.OK(b, d.Set(key(n), value))
			}
		})
		run("set-sync", 0, func(b *testing.B, d db.DB) {
			for n := range b.N {
				assert.OK(b, d.SetSync(key(n), value))
			}
		})
		run("block-of-100-sync", 0, func(b *testing.B, d db.DB) {
			for n := range b.N {
				batch := d.NewBatch()
				for i := range 100 {
					assert.OK(b, batch.Set(key(n*100+i), value))
				}
				assert.OK(b, batch.WriteSync())
				assert.OK(b, batch.Close())
			}
		})
		run("get", filled, func(b *testing.B, d db.DB) {
			for n := range b.N {
				if got, err := d.Get(key(n)); err != nil || len(got) != len(value) {
					b.Fatal(len(got), err)
				}
			}
		})
		run("iterate", filled, func(b *testing.B, d db.DB) {
			for n := 0; n < b.N; {
				it, err := d.Iterator([]byte("block/"), nil)
				assert.OK(b, err)
				for ; n < b.N && it.Valid(); it.Next() {
					if len(it.Key()) == 0 || len(it.Value()) != len(value) {
						b.Fatal(it.Error())
					}
					n++
				}
				assert.OK(b, it.Close())
			}
		})
	}
}
