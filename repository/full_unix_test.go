//go:build unix

package repository_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

// TestFullDirectory: where a directory has no space, or a quota ends, or there are no more inodes,
// the error is brock.ErrNoSpace. With space again the next backup succeeds.
func TestFullDirectory(t *testing.T) {
	db := open(t, vfs.NewMem(), "store")
	change(t, db, 1, 20)
	for _, kind := range []faultfs.Kind{faultfs.Create, faultfs.MkdirAll, faultfs.Write, faultfs.Sync, faultfs.SyncDir, faultfs.Rename} {
		for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
			fsys := faultfs.New(vfs.NewMem(), faultfs.Options{})
			s := repository.Dir(fsys, "r")
			fsys.Inject(faultfs.Fault{Kinds: kind, Times: faultfs.Always, Err: full, Short: true})
			if _, err := repository.Backup(t.Context(), db, s, repository.Options{}); !errors.Is(err, brock.ErrNoSpace) || !errors.Is(err, full) {
				t.Errorf("%v: %v: the error is %v", kind, full, err)
			}
			fsys.Heal()
			if backup(t, db, s); restored(t, s, "") != contents(t, db) {
				t.Errorf("%v: %v: the next backup has other contents", kind, full)
			}
		}
	}
}
