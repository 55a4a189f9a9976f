package open

import (
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

// TestRemovedLock removes the lock file of an open store: nobody else gets in.
func TestRemovedLock(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		db, err := brock.Open(p.TinyOptions("a", ""))
		assert.OK(t, err)
		defer db.Close()
		if err := p.FS.Remove(p.Join("a/LOCK")); err != nil {
			t.Skip("a locked file can't be removed here:", err)
		}
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
			o := p.TinyOptions("a", "")
			o.Mode = mode
			_, err := brock.Open(o)
			assert.Error(t, "a second open", err, brock.ErrLocked)
		}
	})
}

func TestLocks(t *testing.T) {
	t.Parallel()
	for _, fsys := range []vfs.FS{vfs.NewMem(), vfs.OS()} {
		t.Run(fmt.Sprintf("%T", fsys), func(t *testing.T) {
			at := storetest.Dir
			if fsys == vfs.OS() {
				at = filepath.Join(t.TempDir(), "store")
			}
			writer, err := brock.Open(brock.Options{Dir: at, FS: fsys})
			assert.OK(t, err)
			for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
				_, err := brock.Open(brock.Options{Dir: at, FS: fsys, Mode: mode})
				assert.Error(t, "beside a writer", err, brock.ErrLocked)
				var locked *vfs.LockedError
				if !errors.As(err, &locked) || !strings.Contains(err.Error(), "in use by ") || !strings.Contains(err.Error(), at) {
					t.Errorf("mode %d: error %q says not what is in use by whom", mode, err)
				}
			}
			storetest.Set(t, writer, "a=1")
			assert.OK(t, writer.Close())

			var readers []*brock.DB
			for range 2 {
				db, err := brock.Open(brock.Options{Dir: at, FS: fsys, Mode: brock.ReadOnly})
				assert.OK(t, err)
				readers = append(readers, db)
			}
			_, err = brock.Open(brock.Options{Dir: at, FS: fsys})
			assert.Error(t, "beside readers", err, brock.ErrLocked)
			for _, db := range readers {
				v, err := db.Get([]byte("a"))
				assert.Equal(t, "read", string(v), "1")
				assert.OK(t, err)
				assert.OK(t, db.Close())
			}
			writer, err = brock.Open(brock.Options{Dir: at, FS: fsys})
			assert.OK(t, err)
			assert.OK(t, writer.Close())
		})
	}
}
