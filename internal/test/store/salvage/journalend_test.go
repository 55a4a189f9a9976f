package salvage

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
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
				o := brock.Options{Dir: storetest.Dir, FS: mem, Keys: keys, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
				db := assert.Must(brock.Open(o))
				for i := range 20 {
					assert.OK(t, db.Set(fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte{1}, 5000)))
				}
				o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				assert.OK(t, db.Close())
				tear(t, o.FS)
				db = assert.Must(brock.Open(o))
				if flush {
					assert.OK(t, db.Flush(t.Context()))
				}
				assert.OK(t, db.Close())
				_, err := brock.Salvage(t.Context(), o, brock.Options{Dir: "/new", FS: o.FS}, func(c *brock.CorruptionError) {
					t.Errorf("%v, stale %v", c, c.Stale)
				})
				assert.OK(t, err)
				db = storetest.Open(t, brock.Options{Dir: "/new", FS: o.FS, Mode: brock.ReadOnly})
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
	for _, name := range assert.Must(fs.List(storetest.Dir)) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f := assert.Must(fs.OpenReadWrite(filepath.Join(storetest.Dir, name)))
		data := make([]byte, assert.Must(f.Size()))
		assert.Must(f.ReadAt(data, 0))
		end := (len(bytes.TrimRight(data, "\x00")) + 7) &^ 7
		assert.Must(f.WriteAt(bytes.Repeat([]byte{3}, 3000), int64(end+16)))
		assert.OK(t, f.Close())
	}
}
