package backup

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestBackupAfterCrashesOfTwins: two copies of a store write different values of the same
// length, and crash. Their journal files have no seal, the same length, and the same bytes
// at both ends. An increment of one that follows a backup of the other has its values.
func TestBackupAfterCrashesOfTwins(t *testing.T) {
	t.Parallel()
	options := func(mem *vfs.Mem) brock.Options {
		return storetest.Place{FS: mem, Dir: "/"}.RetainingOptions("store", "")
	}
	source := vfs.NewMem()
	db, err := brock.Open(options(source))
	assert.OK(t, err)
	storetest.Set(t, db, "old=value")
	assert.OK(t, db.Close())
	twin := func(value string) *brock.DB {
		mem := source.CrashClone(vfs.CrashOptions{})
		db, err := brock.Open(options(mem))
		assert.OK(t, err)
		storetest.Set(t, db, "key="+value+strings.Repeat("the same bytes ", 300_000))
		assert.OK(t, db.Sync(t.Context()))
		crashed := mem.CrashClone(vfs.CrashOptions{})
		assert.OK(t, db.Close())
		db, err = brock.Open(options(crashed))
		assert.OK(t, err)
		t.Cleanup(func() { assert.OK(t, db.Close()) })
		return db
	}
	one, other := twin("one"), twin("two")
	full, info := storetest.MakeBackup(t, one, brock.BackupOptions{})
	increment, next := storetest.MakeBackup(t, other, brock.BackupOptions{Since: info})
	storetest.RestoreBackups(t, storetest.Place{FS: vfs.NewMem(), Dir: "/"}.RetainingOptions("other", ""), storetest.ShowRetained(t, other, 0), full, increment)
	// What did not change is not sent, sealed or not.
	_, last := storetest.MakeBackup(t, other, brock.BackupOptions{Since: next})
	assert.Equal(t, "files that are sent again", last.Sent, 0)
}

// TestRestoreNested: one of the directories of a store may lie in the other one.
func TestRestoreNested(t *testing.T) {
	t.Parallel()
	streams, _, want := chain(t)
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		for _, dirs := range [][2]string{{"a", "a/values"}, {"b/keys", "b"}, {"c", "c/deep/values"}} {
			o := p.RetainingOptions(dirs[0], dirs[1])
			_, err := brock.Restore(t.Context(), bytes.NewReader(streams[0][:len(streams[0])-1]), o)
			assert.Error(t, "a cut backup", err, brock.ErrCorrupt)
			for _, dir := range dirs {
				if _, err := p.FS.Stat(p.Join(dir)); dirs[0] != "c" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", dir, err)
				}
			}
			assert.SameText(t, dirs[0], storetest.ShowRetained(t, storetest.RestoreBackups(t, o, want[0], streams[0]), 0), want[0])
		}
	})
}
