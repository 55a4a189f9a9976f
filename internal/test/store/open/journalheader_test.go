package open

import (
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// The first frame of a journal segment can't be written, and then nothing can be synced: the
// segment has a header that only the system's memory has. What is committed after the next Open
// does not depend on it, so a loss of power takes nothing that was acknowledged.
func TestHeaderThatIsNotDurable(t *testing.T) {
	for name, cause := range map[string]error{"full disk": faultfs.ErrNoSpace, "failed write": nil} {
		for _, before := range []int{0, 10, 30_000} { // bytes that the journal has before
			t.Run(name, func(t *testing.T) {
				mem := vfs.NewMem()
				fs := faultfs.New(mem, faultfs.Options{})
				o := brock.Options{Dir: storetest.Dir, FS: fs, Maintenance: brock.Maintenance{IdleAfter: time.Hour}, Tuning: brock.Tuning{SegmentSize: 64 << 10}}
				db, err := brock.Open(o)
				assert.OK(t, err)
				if before > 0 {
					assert.OK(t, db.Set([]byte("a"), make([]byte, before)))
					assert.OK(t, db.Flush(t.Context()))
				}
				fs.Inject(
					faultfs.Fault{Kinds: faultfs.Write, Path: ".log", Nth: 2, Err: cause, Short: true}, // the first is the header
					faultfs.Fault{Kinds: faultfs.Syncs, Path: ".log", Times: faultfs.Always},
				)
				if err := db.Set([]byte("b"), make([]byte, 50_000)); err == nil {
					t.Fatal("the commit succeeded")
				}
				fs.Heal()
				if err := db.Close(); err == nil {
					t.Fatal("Close of a store that has stopped succeeded")
				}

				// Another process goes on, in the same system.
				db, err = brock.Open(o)
				assert.OK(t, err)
				storetest.Set(t, db, "c=acknowledged")
				o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
				assert.OK(t, db.Close())
				db = storetest.Open(t, o)
				if v, err := db.Get([]byte("c")); string(v) != "acknowledged" || err != nil {
					t.Errorf("after a loss of power: %q, %v", v, err)
				}
				if _, err := db.Get([]byte("b")); err == nil {
					t.Error("the commit that failed is there")
				}
			})
		}
	}
}
