package raftstore

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// BenchmarkAppend appends to a file system in memory, which has no syncs to wait for: it shows what an
// append costs in processor time and memory.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 1024, 8192} {
		for _, batch := range []int{1, 64} {
			b.Run(fmt.Sprintf("size=%d/batch=%d", size, batch), func(b *testing.B) {
				s := openBenchmark(b)
				logs, next := entries(1, uint64(batch), 1), uint64(1)
				for i := range logs {
					logs[i] = entry(1, 1, size)
				}
				b.SetBytes(int64(size * batch))
				b.ReportAllocs()
				for b.Loop() {
					for _, l := range logs {
						l.Index = next
						next++
					}
					assert.OK(b, s.StoreLogs(logs))
					if next%20_000 < uint64(batch) {
						assert.OK(b, s.DeleteRange(0, next-1000))
					}
				}
			})
		}
	}
}

// BenchmarkGetLog reads entries in order.
func BenchmarkGetLog(b *testing.B) {
	for _, size := range []int{200, 1024, 8192} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := openBenchmark(b)
			const count = 10_000
			for first := uint64(1); first < count; first += 100 {
				logs := entries(first, first+99, 1)
				for i, l := range logs {
					logs[i] = entry(l.Index, 1, size)
				}
				assert.OK(b, s.StoreLogs(logs))
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			index := uint64(0)
			for b.Loop() {
				var l raft.Log
				assert.OK(b, s.GetLog(index%count+1, &l))
				index++
			}
		})
	}
}

func openBenchmark(b *testing.B) *Store {
	o := TuneOptions("raft")
	o.FS = vfs.NewMem()
	s, err := OpenStore(o, Options{})
	assert.OK(b, err)
	b.Cleanup(func() { assert.OK(b, s.Close()) })
	return s
}
