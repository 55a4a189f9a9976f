package damage

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// A killed store whose manifest has lost its last page: what was acknowledged, and only
// an edit tells of, is missed.
func TestLostPageOfTheManifestIsMissed(t *testing.T) {
	ctx := context.Background()
	spill := func(t *testing.T, db *brock.DB, key string) {
		assert.OK(t, db.UpdateContext(ctx, brock.TxnOptions{Update: true, MaxMemory: 1}, func(txn *brock.Txn) error {
			return txn.Set([]byte(key), bytes.Repeat([]byte("v"), 100))
		}))
	}
	for name, do := range map[string]func(t *testing.T, db *brock.DB){
		"one spilled commit": func(t *testing.T, db *brock.DB) { spill(t, db, "a") },
		"spilled commits": func(t *testing.T, db *brock.DB) {
			for _, key := range []string{"a", "b", "c", "d"} {
				spill(t, db, key)
			}
		},
		"a keyspace is made": func(t *testing.T, db *brock.DB) { assert.Must(db.Keyspace("new")) },
		"a keyspace is dropped": func(t *testing.T, db *brock.DB) {
			assert.OK(t, assert.Must(db.Keyspace("old")).Drop(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			db := assert.Must(brock.Open(brock.Options{Dir: "/s", FS: mem}))
			defer db.Close()
			assert.Must(db.Keyspace("old"))
			assert.OK(t, db.Set([]byte("k"), []byte("v")))
			assert.OK(t, db.Flush(ctx))
			do(t, db)
			killed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			names := assert.Must(killed.List("/s"))
			i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "MANIFEST") })
			manifest := assert.Must(killed.OpenReadWrite("/s/" + names[i]))
			size := assert.Must(manifest.Size())
			lost := make([]byte, min(size-64, 300)) // the last edit, or more
			assert.Must(manifest.WriteAt(lost, size-int64(len(lost))))
			assert.OK(t, manifest.Close())
			_, err := brock.Open(brock.Options{Dir: "/s", FS: killed})
			assert.Error(t, "open", err, brock.ErrCorrupt)
		})
	}
}
