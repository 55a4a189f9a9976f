package store

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// TestBackupAfterCrashesOfTwins: two copies of a store write different values of the same
// length, and crash. Their journal files have no seal, the same length, and the same bytes
// at both ends. An increment of one that follows a backup of the other has its values.
func TestBackupAfterCrashesOfTwins(t *testing.T) {
	options := func(mem *vfs.Mem) brock.Options { return place{mem, "/", nil}.retaining("store", "") }
	source := vfs.NewMem()
	db, err := brock.Open(options(source))
	must(t, err)
	set(t, db, "old=value")
	must(t, db.Close())
	twin := func(value string) *brock.DB {
		mem := source.CrashClone(vfs.CrashOptions{})
		db, err := brock.Open(options(mem))
		must(t, err)
		set(t, db, "key="+value+strings.Repeat("the same bytes ", 300_000))
		must(t, db.Sync(t.Context()))
		crashed := mem.CrashClone(vfs.CrashOptions{})
		must(t, db.Close())
		db, err = brock.Open(options(crashed))
		must(t, err)
		t.Cleanup(func() { must(t, db.Close()) })
		return db
	}
	one, other := twin("one"), twin("two")
	full, info := backedUp(t, one, brock.BackupOptions{})
	increment, next := backedUp(t, other, brock.BackupOptions{Since: info})
	restored(t, place{vfs.NewMem(), "/", nil}.retaining("other", ""), retained(t, other, 0), full, increment)
	// What did not change is not sent, sealed or not.
	_, last := backedUp(t, other, brock.BackupOptions{Since: next})
	wantEqual(t, "files that are sent again", last.Sent, 0)
}

// TestRestoreNested: one of the directories of a store may lie in the other one.
func TestRestoreNested(t *testing.T) {
	streams, _, want := chain(t)
	onEach(t, func(t *testing.T, p place) {
		for _, dirs := range [][2]string{{"a", "a/values"}, {"b/keys", "b"}, {"c", "c/deep/values"}} {
			o := p.retaining(dirs[0], dirs[1])
			_, err := brock.Restore(t.Context(), bytes.NewReader(streams[0][:len(streams[0])-1]), o)
			wantErr(t, "a cut backup", err, brock.ErrCorrupt)
			for _, dir := range dirs {
				if _, err := p.fs.Stat(p.in(dir)); dirs[0] != "c" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", dir, err)
				}
			}
			same(t, dirs[0], retained(t, restored(t, o, want[0], streams[0]), 0), want[0])
		}
	})
}
