package brock_test

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// BenchmarkMakeKeyspace makes a keyspace beside others. What it costs must not grow with them.
func BenchmarkMakeKeyspace(b *testing.B) {
	for _, others := range []int{10, 10_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			db, err := brock.Open(brock.Options{Dir: "d", FS: vfs.NewMem()})
			assert.OK(b, err)
			defer db.Close()
			made := 0
			add := func(n int) {
				for range n {
					_, err := db.Keyspace(fmt.Sprint("keyspace ", made))
					assert.OK(b, err)
					made++
				}
			}
			add(others)
			b.ReportAllocs()
			b.ResetTimer()
			add(b.N)
		})
	}
}
