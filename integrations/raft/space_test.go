package raftstore

import (
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// TestDiskUse appends many times what stays, and deletes the head again and again, as snapshots do. The
// files take a bounded multiple of what stays and some journal segments, at all times; and little once
// the whole log was deleted.
func TestDiskUse(t *testing.T) {
	disk := vfs.NewMem()
	o := brock.Options{Dir: "raft", FS: disk}
	o.MemoryLimit = 8 << 20
	o.Tuning = brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20, RunFileSize: 1 << 20}
	s, err := OpenStore(o, Options{})
	assert.OK(t, err)
	const size, keep = 1000, 2000
	total := uint64(300_000)
	if testing.Short() {
		total = 80_000
	}
	most := int64(0)
	var logs []*raft.Log
	for index := uint64(1); index <= total; index++ {
		logs = append(logs, entry(index, 1, size))
		if len(logs) == 50 {
			assert.OK(t, s.StoreLogs(logs))
			logs = logs[:0]
		}
		if index%1000 == 0 && index > keep {
			assert.OK(t, s.DeleteRange(0, index-keep))
		}
		if index%100 == 0 {
			most = max(most, disk.Used())
		}
	}
	live := int64(keep * size)
	// Garbage of 32 MB is always allowed for.
	if bound := 2*live + 40<<20; most > bound {
		t.Errorf("of %d bytes that stay and %d in all the files took %d, more than %d", live, total*size, most, bound)
	}
	t.Logf("of %d bytes that stay and %d in all the files took %d at most", live, total*size, most)
	last, _ := s.LastIndex()
	assert.OK(t, s.DeleteRange(0, last))
	deadline.Wait(t, "the space of a log that was deleted comes back", func() bool { return disk.Used() < 2<<20 })
	assert.OK(t, s.StoreLog(entry(last+1, 2, size)))
	checkLog(t, s)
	assert.OK(t, s.Close())
	t.Logf("%d bytes are left", disk.Used())
}
