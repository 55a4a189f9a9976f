package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// A crash has left something behind the journal's last frame. The next session has cut it, and
// closed in order, or flushed and kept the file for its values. Salvage reads the file to its
// recorded end, and so finds nothing damaged.
func TestSalvageReadsToTheRecordedEnd(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, brock.StaticKey(bytes.Repeat([]byte{7}, 32))} {
		for _, flush := range []bool{false, true} {
			t.Run(fmt.Sprintf("encrypted %v, flushed %v", keys != nil, flush), func(t *testing.T) {
				mem := vfs.NewMem()
				o := brock.Options{Dir: dir, FS: mem, Keys: keys, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
				db := must2(brock.Open(o))
				for i := range 20 {
					must(t, db.Set(fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte{1}, 5000)))
				}
				o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				must(t, db.Close())
				tear(t, o.FS)
				db = must2(brock.Open(o))
				if flush {
					must(t, db.Flush(t.Context()))
				}
				must(t, db.Close())
				_, err := brock.Salvage(t.Context(), o, brock.Options{Dir: "/new", FS: o.FS}, func(c *brock.CorruptionError) {
					t.Errorf("%v, stale %v", c, c.Stale)
				})
				must(t, err)
				db = openTest(t, brock.Options{Dir: "/new", FS: o.FS, Mode: brock.ReadOnly})
				if v, err := db.Get([]byte("k19")); len(v) != 5000 || err != nil {
					t.Errorf("%d bytes, %v", len(v), err)
				}
			})
		}
	}
}

// tear writes behind the last frame of each journal file, as a crash may leave a torn frame.
func tear(t *testing.T, fs vfs.FS) {
	t.Helper()
	for _, name := range must2(fs.List(dir)) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f := must2(fs.OpenReadWrite(filepath.Join(dir, name)))
		data := make([]byte, must2(f.Size()))
		must2(f.ReadAt(data, 0))
		end := (len(bytes.TrimRight(data, "\x00")) + 7) &^ 7
		must2(f.WriteAt(bytes.Repeat([]byte{3}, 3000), int64(end+16)))
		must(t, f.Close())
	}
}
