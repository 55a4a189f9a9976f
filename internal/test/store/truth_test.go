package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// fileBytes is the length of all files of a store, and of those of the journal.
func fileBytes(t *testing.T, dir string) (all, journal int64) {
	t.Helper()
	for _, e := range must2(os.ReadDir(dir)) {
		info, err := e.Info()
		if err != nil {
			continue // a file that was just removed
		}
		all += info.Size()
		if filepath.Ext(e.Name()) == ".log" {
			journal += info.Size()
		}
	}
	return all, journal
}

// written is how many bytes this process has given to write calls; 0 where the system
// doesn't tell.
func written() (n int64) {
	text, _ := os.ReadFile("/proc/self/io")
	if _, after, ok := strings.Cut(string(text), "wchar: "); ok {
		_, _ = fmt.Sscan(after, &n)
	}
	return n
}

// near checks that got is want, within a share and some bytes.
func near(t *testing.T, what string, got, want int64, share float64, some int64) {
	t.Helper()
	if off := int64(share*float64(want)) + some; got < want-off || got > want+off {
		t.Errorf("%s: %d, want %d within %d", what, got, want, off)
	}
}

// What Metrics says of bytes written and of files is what the system says.
func TestMetricsAgreeWithTheSystem(t *testing.T) {
	for _, d := range []brock.Durability{brock.Buffered, brock.Synced} {
		dir, before := t.TempDir(), written()
		db := openTest(t, brock.Options{
			Dir: dir, Durability: d, Maintenance: brock.Maintenance{IdleAfter: time.Hour}, Tuning: brock.Tuning{MemtableSize: 1 << 20},
		})
		commits := 40
		if d == brock.Buffered {
			commits = 1000
		}
		for i := range commits { // single pairs: frames weigh as much as records
			must(t, db.Set(wayKey(i), []byte("v")))
		}
		_, journal := fileBytes(t, dir)
		// Zeros that were written ahead, frames have overwritten since.
		if n := db.Metrics().Tree.JournalBytes; n < journal || n > 2*journal {
			t.Errorf("JournalBytes is %d, the files have %d", n, journal)
		}
		for round := range 3 {
			w := db.NewWriter(context.Background())
			// Segments of values stay too small to be filled ahead.
			for i := range 12_000 {
				must(t, w.Set(wayKey(i), wayValue(1, round)))
				if i%100 == 0 {
					must(t, w.Set(wayKey(i), wayValue(0, round)))
				}
			}
			must(t, w.Close())
		}
		must(t, db.Compact(context.Background()))
		m := db.Metrics()
		if after := written(); after > 0 {
			near(t, "bytes written", int64(m.WriteAmp()*float64(m.Bytes)), after-before, 0.03, 64<<10)
		}
		all, _ := fileBytes(t, dir)
		near(t, "bytes of files", m.Tree.RunBytes+m.Tree.SegmentBytes+m.Tree.RemapBytes, all, 0.02, 64<<10)
	}
}

// LiveBytes is about what is left once garbage was looked for everywhere.
func TestLiveBytesAreLive(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	for name, write := range map[string]func(db *brock.DB, inline, separated []byte){
		"overwritten": func(db *brock.DB, inline, separated []byte) {
			for i := range keys {
				must(t, db.Set(wayKey(i), inline))
				if i%10 == 0 {
					must(t, db.Set(wayKey(keys+i), separated))
				}
			}
		},
		"half overwritten": func(db *brock.DB, inline, _ []byte) {
			for i := range keys / 2 {
				must(t, db.Set(wayKey(i), inline))
			}
		},
		"half deleted": func(db *brock.DB, _, _ []byte) {
			for i := range keys / 2 {
				must(t, db.Delete(wayKey(i)))
			}
		},
		"a range deleted": func(db *brock.DB, _, _ []byte) {
			must(t, db.DeleteRange(wayKey(0), wayKey(keys/2)))
		},
		"added": func(db *brock.DB, inline, _ []byte) {
			for i := range keys / 2 {
				must(t, db.Set(wayKey(2*keys+i), inline))
			}
		},
	} {
		db := openTest(t, brock.Options{
			Dir: "/s", FS: vfs.NewMem(), Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour},
			Tuning: brock.Tuning{MemtableSize: 4 << 20},
		})
		inline, separated := make([]byte, 100), make([]byte, 1000)
		w := db.NewWriter(context.Background())
		for i := range keys {
			must(t, w.Set(wayKey(i), inline))
			if i%10 == 0 {
				must(t, w.Set(wayKey(keys+i), separated))
			}
		}
		must(t, w.Close())
		must(t, db.Compact(context.Background()))
		write(db, inline, separated)
		must(t, db.Flush(context.Background()))
		said := db.Metrics().Tree.LiveBytes
		_, err := db.Reclaim(context.Background())
		must(t, err)
		m := db.Metrics().Tree
		near(t, name, said, m.RunBytes+m.SegmentBytes, 0.2, 256<<10)
	}
}
