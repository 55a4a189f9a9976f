package space

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// fileBytes is the length of all files of a store, and of those of the journal.
func fileBytes(t *testing.T, dir string) (all, journal int64) {
	t.Helper()
	for _, e := range assert.Must(os.ReadDir(dir)) {
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
		db := storetest.Open(t, brock.Options{
			Dir: dir, Durability: d, Maintenance: brock.Maintenance{IdleAfter: time.Hour}, Tuning: brock.Tuning{MemtableSize: 1 << 20},
		})
		commits := 40
		if d == brock.Buffered {
			commits = 1000
		}
		for i := range commits { // single pairs: frames weigh as much as records
			assert.OK(t, db.Set(boundedKey(i), []byte("v")))
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
				assert.OK(t, w.Set(boundedKey(i), boundedValue(1, round)))
				if i%100 == 0 {
					assert.OK(t, w.Set(boundedKey(i), boundedValue(0, round)))
				}
			}
			assert.OK(t, w.Close())
		}
		assert.OK(t, db.Compact(context.Background()))
		m := db.Metrics()
		if after := written(); after > 0 {
			near(t, "bytes written", int64(m.WriteAmp()*float64(m.Bytes)), after-before, 0.03, 64<<10)
		}
		all, _ := fileBytes(t, dir)
		near(t, "bytes of files", m.Tree.RunBytes+m.Tree.SegmentBytes+m.Tree.ForwardingBytes, all, 0.02, 64<<10)
	}
}

// LiveBytes is about what is left once garbage was looked for everywhere.
func TestLiveBytesAreLive(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	for name, write := range map[string]func(db *brock.DB, inline, separated []byte){
		"overwritten": func(db *brock.DB, inline, separated []byte) {
			for i := range keys {
				assert.OK(t, db.Set(boundedKey(i), inline))
				if i%10 == 0 {
					assert.OK(t, db.Set(boundedKey(keys+i), separated))
				}
			}
		},
		"half overwritten": func(db *brock.DB, inline, _ []byte) {
			for i := range keys / 2 {
				assert.OK(t, db.Set(boundedKey(i), inline))
			}
		},
		"half deleted": func(db *brock.DB, _, _ []byte) {
			for i := range keys / 2 {
				assert.OK(t, db.Delete(boundedKey(i)))
			}
		},
		"a range deleted": func(db *brock.DB, _, _ []byte) {
			assert.OK(t, db.DeleteRange(boundedKey(0), boundedKey(keys/2)))
		},
		"added": func(db *brock.DB, inline, _ []byte) {
			for i := range keys / 2 {
				assert.OK(t, db.Set(boundedKey(2*keys+i), inline))
			}
		},
	} {
		db := storetest.Open(t, brock.Options{
			Dir: "/s", FS: vfs.NewMem(), Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour},
			Tuning: brock.Tuning{MemtableSize: 4 << 20},
		})
		inline, separated := make([]byte, 100), make([]byte, 1000)
		w := db.NewWriter(context.Background())
		for i := range keys {
			assert.OK(t, w.Set(boundedKey(i), inline))
			if i%10 == 0 {
				assert.OK(t, w.Set(boundedKey(keys+i), separated))
			}
		}
		assert.OK(t, w.Close())
		assert.OK(t, db.Compact(context.Background()))
		write(db, inline, separated)
		assert.OK(t, db.Flush(context.Background()))
		said := db.Metrics().Tree.LiveBytes
		_, err := db.Reclaim(context.Background())
		assert.OK(t, err)
		m := db.Metrics().Tree
		near(t, name, said, m.RunBytes+m.SegmentBytes, 0.2, 256<<10)
	}
}
