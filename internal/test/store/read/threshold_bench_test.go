package read

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// BenchmarkValueThreshold compares separated with inline values: it is why
// DefaultValueThreshold is what it is (see docs/adr). One iteration writes every
// key twice, waits for all background work, and then reads from memory.
func BenchmarkValueThreshold(b *testing.B) {
	for _, value := range []int{128, 256, 512, 1024} {
		for _, threshold := range []int{value, 2 * value} { // separated, inline
			shape := storeShape{keys: 200_000, value: value, threshold: threshold}
			if testing.Short() {
				shape.keys = 5000
			}
			b.Run(shape.String(), func(b *testing.B) {
				for b.Loop() {
					measureThreshold(b, shape, b.TempDir())
				}
			})
		}
	}
}

func measureThreshold(b *testing.B, shape storeShape, dir string) {
	db, err := brock.Open(brock.Options{
		Dir: dir, Durability: brock.Buffered, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: shape.threshold},
		Tuning: brock.Tuning{MemtableSize: 8 << 20},
	})
	assert.OK(b, err)
	defer db.Close()
	perEntry := func(what string, n int, fn func()) {
		begin := time.Now()
		fn()
		b.ReportMetric(float64(time.Since(begin).Nanoseconds())/float64(n), "ns/"+what)
	}
	perEntry("load", 2*shape.keys, func() {
		shape.load(b, db)
		shape.load(b, db)
		assert.OK(b, db.Compact(context.Background()))
	})
	m := db.Metrics()
	b.ReportMetric(m.WriteAmp(), "written/raw")
	scan := func(o brock.IteratorOptions) func() {
		return func() {
			assert.OK(b, db.View(func(txn *brock.Txn) error {
				for it, err := range txn.Items(o) {
					if err != nil {
						return err
					}
					if o.KeysOnly {
						continue
					}
					v, err := it.Value()
					if err != nil {
						return err
					}
					touch(v)
				}
				return nil
			}))
		}
	}
	scan(brock.IteratorOptions{})()
	r := rand.New(rand.NewPCG(3, 4))
	var key []byte
	get := func() {
		for range shape.keys {
			key = fmt.Appendf(key[:0], "user/%017d", r.IntN(shape.keys)*7919)
			assert.OK(b, db.View(func(txn *brock.Txn) error {
				it, err := txn.Get(key)
				if err != nil {
					return err
				}
				v, err := it.Value()
				touch(v)
				return err
			}))
		}
	}
	get()
	perEntry("get", shape.keys, get)
	perEntry("scan", shape.keys, scan(brock.IteratorOptions{}))
	perEntry("keys", shape.keys, scan(brock.IteratorOptions{KeysOnly: true}))
}
