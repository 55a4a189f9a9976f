package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestSalvageMissesJournalSegments removes each segment of a journal, which the manifest is told of
// only where a commit has synced it: the commits that are gone are reported, as keys may be older
// than they were.
func TestSalvageMissesJournalSegments(t *testing.T) {
	fs := vfs.NewMem()
	o := salvageOptions(fs, "/old")
	o.Durability, o.Tuning.SegmentSize, o.Tuning.MemtableSize = brock.Buffered, 256<<10, 2<<20 // nothing is flushed
	db, err := brock.Open(o)
	assert.OK(t, err)
	for i := range 60 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i%30), storetest.RandomBytes(i, 20000)))
	}
	assert.OK(t, db.Sync(t.Context()))
	killed := fs.CrashClone(vfs.CrashOptions{})
	assert.OK(t, db.Close())
	segments := 0
	for _, name := range append(assert.Must(killed.List("/old")), "nothing") {
		if filepath.Ext(name) != ".log" && name != "nothing" {
			continue
		}
		segments++
		damaged := killed.CrashClone(vfs.CrashOptions{})
		if name != "nothing" {
			assert.OK(t, damaged.Remove(filepath.Join("/old", name)))
		}
		var losses []string
		sum, err := brock.Salvage(t.Context(), brock.Options{FS: damaged, Dir: "/old"}, salvageOptions(damaged, "/new"), func(l *brock.CorruptionError) {
			losses = append(losses, l.Error())
			if !l.Stale {
				t.Errorf("without %s: %v is not Stale", name, l)
			}
		})
		assert.OK(t, err)
		switch {
		case name == "nothing" && (len(losses) > 0 || sum.Keys != 30):
			t.Errorf("of a sound store: %d keys, %q", sum.Keys, losses)
		case name != "nothing" && (len(losses) != 1 || !strings.Contains(losses[0], name)):
			t.Errorf("without %s: %q", name, losses)
		}
	}
	if segments < 4 {
		t.Fatalf("%d segments", segments-1)
	}
}

// TestSalvageMissesTheFirstSegment: a journal segment that is gone is missed also if a value
// segment has as many frames as the journal had up to its end.
func TestSalvageMissesTheFirstSegment(t *testing.T) {
	fs := vfs.NewMem()
	o := salvageOptions(fs, "/old")
	o.Durability, o.Tuning.SegmentSize, o.Tuning.MemtableSize = brock.Buffered, 256<<10, 2<<20 // nothing is flushed
	db, err := brock.Open(o)
	assert.OK(t, err)
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
		for i := range 200 {
			assert.OK(t, txn.Set(fmt.Appendf(nil, "large %d", i), storetest.RandomBytes(i, 6000)))
		}
		return nil
	}))
	for i := range 30 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i%9), storetest.RandomBytes(i, 100_000)))
	}
	assert.OK(t, db.Sync(t.Context()))
	killed := fs.CrashClone(vfs.CrashOptions{})
	assert.OK(t, db.Close())
	for _, name := range assert.Must(killed.List("/old")) {
		if filepath.Ext(name) != ".log" {
			continue
		}
		damaged := killed.CrashClone(vfs.CrashOptions{})
		assert.OK(t, damaged.Remove(filepath.Join("/old", name)))
		losses := 0
		_, err := brock.Salvage(t.Context(), brock.Options{FS: damaged, Dir: "/old"}, salvageOptions(damaged, "/new"), func(l *brock.CorruptionError) { losses++ })
		assert.OK(t, err)
		if losses == 0 {
			t.Errorf("without %s nothing is reported", name)
		}
	}
}

// TestSalvageOfReplacedWrites: a large transaction writes a key twice, so two records have its
// version. If the later one is lost, the earlier one, which was never committed, is not taken.
func TestSalvageOfReplacedWrites(t *testing.T) {
	fs := vfs.NewMem()
	db, err := brock.Open(salvageOptions(fs, "/old"))
	assert.OK(t, err)
	manifest := filepath.Join("/old", "MANIFEST-000001")
	edit := len(readAll(t, fs, manifest)) + 32 // a byte of an edit before that of the transaction
	assert.OK(t, db.Set([]byte("before"), []byte("it")))
	assert.OK(t, db.Flush(t.Context()))
	earlier, later := storetest.RandomBytes(1, 3000), storetest.RandomBytes(2, 3000)
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
		assert.OK(t, txn.Set([]byte("twice"), earlier))
		assert.OK(t, txn.Set([]byte("once"), later[1:]))
		for i := range 200 {
			assert.OK(t, txn.Set(fmt.Appendf(nil, "key %03d", i), storetest.RandomBytes(3+i, 2000)))
		}
		return txn.Set([]byte("twice"), later)
	}))
	assert.OK(t, db.Close())
	files := map[string][]string{} // by their extensions
	for _, name := range assert.Must(fs.List("/old")) {
		ext := filepath.Ext(name)
		files[ext] = append(files[ext], filepath.Join("/old", name))
	}
	segments := files[".val"]
	last := segments[len(segments)-1]
	has := func(path string, v []byte) bool { return bytes.Contains(readAll(t, fs, path), v) }
	if !has(last, later) || has(last, earlier) || !has(segments[0], earlier) {
		t.Fatalf("segments %q: the records of the key are not in the first and the last", segments)
	}
	cut := func(fs *vfs.Mem, path string, at func(data []byte) int) {
		f := assert.Must(fs.OpenReadWrite(path))
		assert.OK(t, errors.Join(f.Truncate(int64(at(readAll(t, fs, path)))), f.Close()))
	}
	flip := func(fs *vfs.Mem, path string, at int) {
		f := assert.Must(fs.OpenReadWrite(path))
		assert.Must(f.WriteAt([]byte{readAll(t, fs, path)[at] ^ 1}, int64(at)))
		assert.OK(t, f.Close())
	}
	half := func(data []byte) int { return len(data) / 2 }
	loseRuns := func(fs *vfs.Mem) {
		for _, path := range files[".run"] {
			cut(fs, path, func([]byte) int { return 4096 })
		}
	}
	for name, damage := range map[string]func(fs *vfs.Mem){
		"segment":              func(fs *vfs.Mem) { assert.OK(t, fs.Remove(last)) },
		"segment and manifest": func(fs *vfs.Mem) { assert.OK(t, fs.Remove(last)); flip(fs, manifest, edit) },
		"all":                  func(fs *vfs.Mem) { assert.OK(t, fs.Remove(last)); flip(fs, manifest, edit); loseRuns(fs) },
		"segment and entries":  func(fs *vfs.Mem) { assert.OK(t, fs.Remove(last)); loseRuns(fs) },
		"end and entries":      func(fs *vfs.Mem) { cut(fs, last, half); loseRuns(fs) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := fs.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			damage(fs)
			_, err := brock.Salvage(t.Context(), brock.Options{FS: fs, Dir: "/old"}, salvageOptions(fs, "/new"), func(*brock.CorruptionError) {})
			assert.OK(t, err)
			o := salvageOptions(fs, "/new")
			o.MustExist = true
			db := assert.Must(brock.Open(o))
			defer db.Close()
			v, err := db.Get([]byte("twice"))
			if err == nil && !bytes.Equal(v, later) || err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
				t.Errorf("%d bytes, the earlier ones: %v, %v", len(v), bytes.Equal(v, earlier), err)
			}
		})
	}
}
