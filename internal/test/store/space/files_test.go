package space

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// filesOf lists the files of a store and holds them to its directories: each is there once, no
// shorter than is said, and its dead part is within it.
func filesOf(t *testing.T, db *brock.DB) (files []brock.FileInfo) {
	t.Helper()
	files = assert.Must(brock.Files(db))
	o := db.Options()
	named := make(map[string]bool)
	for _, f := range files {
		dir := o.ValueDir
		if f.Kind == "run" {
			dir = o.Dir
		}
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil || info.Size() < f.Bytes || f.Kind != "journal" && info.Size() != f.Bytes || f.Dead < 0 || f.Dead > f.Bytes || named[f.Name] {
			t.Errorf("%+v, on disk %v (%v)", f, info, err)
		}
		named[f.Name] = true
	}
	return files
}

// Files has each data file of the directories, and says what Metrics says of their sums. What
// overwriting has left in a file is its dead part.
func TestFilesAgreeWithMetrics(t *testing.T) {
	o := brock.Options{
		Dir: t.TempDir(), ValueDir: t.TempDir(), Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 1 << 20},
		// No collection and no compaction by itself: the garbage is to be seen.
		Maintenance: brock.Maintenance{GarbageRatio: 0.9, IdleAfter: time.Hour},
	}
	db := storetest.Open(t, o)
	value := bytes.Repeat([]byte("v"), 10_000)
	for round := range 3 {
		for i := range 300 {
			if i%3 <= 2-round { // a third stays of each round
				assert.OK(t, db.Set(fmt.Appendf(nil, "large%04d", i), value))
			}
			assert.OK(t, db.Set(fmt.Appendf(nil, "small%04d", i), value[:100]))
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.Set([]byte("last"), value))
	files, m := filesOf(t, db), db.Metrics().Tree
	var runs, segments, dead, deadIn, unflushed, feed int64
	for _, f := range files {
		switch {
		case f.Use == "feed":
			feed += f.Bytes
		case f.Kind == "run":
			runs += f.Bytes
			if f.Run == 0 || f.Tier != "base" || f.Entries != m.RunEntries || f.MinVersion == 0 || f.MaxVersion < f.MinVersion || f.MaxVersion >= m.Version {
				t.Errorf("a run: %+v", f)
			}
		default:
			dead += f.Dead
			if f.Use == "unflushed" {
				unflushed += f.Bytes
				f.Bytes = assert.Must(os.Stat(filepath.Join(o.ValueDir, f.Name))).Size() // with room made ahead
			}
			segments += f.Bytes
			if f.Dead > 0 {
				deadIn++
			}
			if f.Tier != "" || f.Run != 0 {
				t.Errorf("a segment: %+v", f)
			}
		}
	}
	if runs != m.RunBytes || segments != m.SegmentBytes || dead != m.DeadBytes || feed != m.FeedBytes {
		t.Errorf("runs %d, segments %d, dead %d, feed %d; metrics say %d, %d, %d, %d", runs, segments, dead, feed, m.RunBytes, m.SegmentBytes, m.DeadBytes, m.FeedBytes)
	}
	// 100 keys were written three times, 100 twice.
	if least := int64(300 * len(value) * 9 / 10); dead < least || deadIn < 2 || unflushed < int64(len(value)) {
		t.Errorf("%d bytes are dead in %d files, want at least %d; %d are unflushed", dead, deadIn, least, unflushed)
	}
	onDisk := 0
	for _, dir := range []string{o.Dir, o.ValueDir} {
		for _, e := range assert.Must(os.ReadDir(dir)) {
			if slices.Contains([]string{".run", ".val", ".log", ".map"}, filepath.Ext(e.Name())) {
				onDisk++
			}
		}
	}
	assert.Equal(t, "files listed", len(files), onDisk)

	// A follower sees the same, but for the journal that its writer has open.
	follower := storetest.Open(t, brock.Options{Dir: o.Dir, ValueDir: o.ValueDir, Mode: brock.Follow})
	assert.Must(follower.Refresh(t.Context()))
	flushed := slices.DeleteFunc(slices.Clone(files), func(f brock.FileInfo) bool { return f.Use == "unflushed" })
	if got := filesOf(t, follower); !slices.Equal(got, flushed) || len(flushed) == len(files) {
		t.Errorf("a follower lists %+v, its writer %+v", got, files)
	}

	// What is collected is not listed any more, though a reader keeps the files.
	reader := assert.Must(db.Snapshot())
	defer reader.Close()
	assert.Must(db.Reclaim(t.Context()))
	var left int64
	for _, f := range filesOf(t, db) {
		left += f.Dead
	}
	if left > dead/2 {
		t.Errorf("%d bytes are dead after Reclaim, and %d before", left, dead)
	}
	reader.Close()
	assert.OK(t, db.Close())
	_, err := brock.Files(db)
	assert.Error(t, "Files of a closed store", err, brock.ErrClosed)
}

// A store in memory has files, too.
func TestFilesInMemory(t *testing.T) {
	db := storetest.Open(t, brock.Options{InMemory: true})
	assert.OK(t, db.Set([]byte("k"), []byte("v")))
	assert.OK(t, db.Flush(t.Context()))
	if files := assert.Must(brock.Files(db)); len(files) == 0 || files[0].Kind != "run" || files[0].Entries != 1 {
		t.Errorf("%+v", files)
	}
}
