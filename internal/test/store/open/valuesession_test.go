package open

import (
	"errors"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// TestFailedSyncOfAValueSession: the sync of a SUPER fails while a session with the value directory
// begins, and the store is opened again by the same system. A loss of power at any moment leaves
// directories that belong together.
func TestFailedSyncOfAValueSession(t *testing.T) {
	mem := vfs.NewMem()
	var before func(faultfs.Op)
	fsys := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if before != nil {
			before(op)
		}
	}})
	o := brock.Options{FS: fsys, Dir: "/d", ValueDir: "/v"}
	reopen := func() error {
		db, err := brock.Open(o)
		if err == nil {
			err = db.Close()
		}
		return err
	}
	assert.OK(t, reopen())
	for nth := 1; ; nth++ {
		fsys.Inject(faultfs.Fault{Kinds: faultfs.Sync, Path: "SUPER", Nth: nth})
		struck := fsys.Struck()
		if err := reopen(); err == nil && fsys.Struck() == struck {
			break
		}
		fsys.Heal()
		crashes := 0
		before = func(op faultfs.Op) {
			if op.Kind&(faultfs.Changes|faultfs.Syncs) == 0 {
				return
			}
			crashes++
			copied := brock.Options{FS: mem.CrashClone(vfs.CrashOptions{}), Dir: "/d", ValueDir: "/v"}
			db, err := brock.Open(copied)
			if err == nil {
				err = errors.Join(db.Verify(t.Context(), nil), db.Close())
			}
			if err != nil {
				t.Errorf("sync %d of SUPER failed, crash before %v: %v", nth, op, err)
			}
		}
		assert.OK(t, reopen())
		before = nil
		if crashes < 5 {
			t.Errorf("%d crashes", crashes)
		}
	}
}
