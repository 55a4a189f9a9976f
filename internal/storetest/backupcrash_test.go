package storetest

import (
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
