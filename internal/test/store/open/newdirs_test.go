package open

import (
	"syscall"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// TestDirectoriesOfFailedOpens: an Open that fails may leave a directory whose name is not
// durable. Whatever fails in those that come next, the store that is made there at last is
// found after a loss of power.
func TestDirectoriesOfFailedOpens(t *testing.T) {
	for nth := 1; nth <= 4; nth++ {
		for times := 1; times <= 12; times++ {
			mem := vfs.NewMem()
			fs := faultfs.New(mem, faultfs.Options{})
			fs.Inject(faultfs.Fault{Kinds: faultfs.Opens | faultfs.SyncDir, Nth: nth, Times: times, Err: syscall.EMFILE})
			o := brock.Options{FS: fs, Dir: "new/db"}
			db, err := brock.Open(o)
			for tries := 0; err != nil && tries < 20; tries++ {
				db, err = brock.Open(o)
			}
			assert.OK(t, err)
			assert.OK(t, db.Set([]byte("a"), []byte("1")))
			assert.OK(t, db.Close())
			o.FS, o.MustExist = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost}), true
			db, err = brock.Open(o)
			if err != nil {
				t.Errorf("calls %d to %d fail: %v", nth, nth+times-1, err)
				continue
			}
			if got, err := db.Get([]byte("a")); string(got) != "1" {
				t.Errorf("calls %d to %d fail: %q, %v", nth, nth+times-1, got, err)
			}
			assert.OK(t, db.Close())
		}
	}
}
