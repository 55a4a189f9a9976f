package read

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Verify reads a store that is larger than memory once, by large requests, though the
// order of its keys is not that of its values: also where segments were collected.
func TestVerifyReadsEachByteOnce(t *testing.T) {
	const n, size = 6000, 2000
	for _, collected := range []bool{false, true} {
		fs := newDiskFS()
		o := brock.Options{Dir: t.TempDir(), FS: fs, Durability: brock.Buffered, Maintenance: brock.Maintenance{NoClustering: true, ScrubEvery: -1, IdleAfter: time.Hour},
			Tuning: brock.Tuning{SegmentSize: 4 << 20, MemtableSize: 1 << 20}}
		db, err := brock.Open(o)
		assert.OK(t, err)
		for _, i := range shuffled(n) {
			assert.OK(t, db.Set(diskKey(i), diskValue(i, size)))
		}
		if collected {
			assert.OK(t, db.Flush(t.Context()))
			for i := 0; i < n; i += 2 {
				assert.OK(t, db.Delete(diskKey(i)))
			}
			assert.OK(t, db.Compact(t.Context()))
			_, err := db.Reclaim(t.Context())
			assert.OK(t, err)
		}
		assert.OK(t, db.Close())
		db = storetest.Open(t, o)
		fs.forget()
		fs.small = true
		assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
		files, bytes := filesIn(t, o.Dir)
		if fs.read > bytes+int64(files)*16<<10 || fs.reads > 8*files+int(bytes>>17) {
			t.Errorf("collected %v: %d bytes by %d reads of %d bytes in %d files", collected, fs.read, fs.reads, bytes, files)
		}
	}
}

// A compaction of runs that are not in memory reads each byte once, by large requests, and
// waits for few that it has not asked for before.
func TestCompactionReadsByLargeRequests(t *testing.T) {
	const n = 60_000
	fs := newDiskFS()
	o := brock.Options{Dir: t.TempDir(), FS: fs, Durability: brock.Buffered, Maintenance: brock.Maintenance{NoClustering: true, ScrubEvery: -1, IdleAfter: time.Hour}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	for part := range 2 {
		batch := db.NewBatch()
		for i := part; i < n; i += 2 {
			assert.OK(t, batch.Set(diskKey(i), make([]byte, 100)))
		}
		assert.Must(batch.Commit(t.Context(), 0))
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, db.Close())
	db = storetest.Open(t, o)
	runs := db.Metrics().Tree.Runs
	_, bytes := filesIn(t, o.Dir)
	fs.forget()
	fs.small = true
	assert.OK(t, db.Compact(t.Context()))
	if fs.read > bytes || fs.reads > 40+int(bytes>>18) || fs.waits > 30 || runs != 2 {
		t.Errorf("%d runs: %d bytes by %d reads, %d of them not asked for before; the files have %d", runs, fs.read, fs.reads, fs.waits, bytes)
	}
}

func filesIn(t *testing.T, dir string) (files int, bytes int64) {
	t.Helper()
	list, err := os.ReadDir(dir)
	assert.OK(t, err)
	for _, f := range list {
		info, err := os.Stat(filepath.Join(dir, f.Name()))
		assert.OK(t, err)
		files, bytes = files+1, bytes+info.Size()
	}
	return files, bytes
}
