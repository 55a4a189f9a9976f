package journal

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

// TestBigGroupsAreReadBelowAGuard cuts a file while a group is read that is so big that it
// is in the file's mapping: that is an error, and not the end of the process.
func TestBigGroupsAreReadBelowAGuard(t *testing.T) {
	var dir string
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	cut := func(pos entry.Position, payload []byte, _ frame.Header) error {
		if err := os.Truncate(filepath.Join(dir, filename.Of(filename.Journal, pos.Segment)), pos.Offset); err != nil {
			return err
		}
		for _, c := range payload {
			sum += int(c)
		}
		return nil
	}
	for name, read := range map[string]func(c ReplayConfig) error{
		"replay": func(c ReplayConfig) error { _, err := Replay(c, cut); return err },
		"follow": func(c ReplayConfig) error { return NewFollower(c, cut).Follow(c.Known) },
	} {
		t.Run(name, func(t *testing.T) {
			dir = t.TempDir()
			payload, _ := group(1, 0, 17<<20)
			j := New(Config{Config: segment.Config{FS: vfs.OS(), Dir: dir, UUID: uuid, Ring: testRing}, Owner: &owner{}})
			_, err := j.Append(0, []entry.Version{1}, [][]byte{payload})
			must(err)
			must(j.Sync())
			must(j.Close())
			err = read(ReplayConfig{Config: segment.Config{FS: vfs.OS(), Dir: dir, UUID: uuid, Ring: testRing}, Known: Known{Durable: []frame.End{j.DurableEnd().End}}, ReadOnly: true})
			if !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("%v, after %d", err, sum)
			}
		})
	}
}

// TestLongHoleTakesNoMemory makes a journal segment 8 TiB long: nearly all of it is a hole. To
// read it takes no more memory than a part in 100,000 of its length, and fails or gives its group.
func TestLongHoleTakesNoMemory(t *testing.T) {
	dir, fsys := t.TempDir(), vfs.OS()
	payload, _ := group(1, 0, 100)
	j := New(Config{Config: segment.Config{FS: fsys, Dir: dir, UUID: uuid, Ring: testRing}, Owner: &owner{}})
	pos, err := j.Append(0, []entry.Version{1}, [][]byte{payload})
	if err = errors.Join(err, j.Sync(), j.Close()); err != nil {
		t.Fatal(err)
	}
	const length = 8 << 40
	if err := os.Truncate(filepath.Join(dir, filename.Of(filename.Journal, pos.Segment)), length); err != nil {
		t.Skip("the file system has no files of 8 TiB:", err)
	}
	groups := 0
	count := func(entry.Position, []byte, frame.Header) error { groups++; return nil }
	for name, read := range map[string]func(c ReplayConfig) error{
		"replay": func(c ReplayConfig) error { _, err := Replay(c, count); return err },
		"follow": func(c ReplayConfig) error { return NewFollower(c, count).Follow(c.Known) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read(ReplayConfig{Config: segment.Config{FS: fsys, Dir: dir, UUID: uuid, Ring: testRing}, Known: Known{Durable: []frame.End{j.DurableEnd().End}}, ReadOnly: true})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > length/100_000 {
			t.Errorf("%s: %d MB allocated", name, n>>20)
		}
		t.Logf("%s: %v, %d groups so far, %d MB allocated", name, err, groups, (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	if groups == 0 {
		t.Error("no group was read")
	}
}
