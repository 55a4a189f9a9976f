package follow

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// removing is a writer of a backup that has the store's writer remove files once the backup has
// begun.
type removing struct {
	bytes.Buffer
	once   sync.Once
	remove func()
}

func (w *removing) Write(p []byte) (int, error) {
	w.once.Do(w.remove)
	return w.Buffer.Write(p)
}

// TestCopiesOfFollowed backs a store up from a follower while the writer goes on: whole, by
// increments in turn with those of the writer, and as checkpoints. What the writer removes
// meanwhile is in the copy all the same.
func TestCopiesOfFollowed(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "values"} {
		for name, options := range map[string]func(storetest.Place, string, string) brock.Options{"plain": storetest.Place.RetainingOptions, "encrypted": storetest.Place.KeyedOptions} {
			t.Run(name+",ValueDir="+values, func(t *testing.T) {
				t.Parallel()
				storetest.OnEach(t, func(t *testing.T, p storetest.Place) { copyFollowed(t, p, options, values) })
			})
		}
	}
}

func copyFollowed(t *testing.T, p storetest.Place, options func(storetest.Place, string, string) brock.Options, values string) {
	o := options(p, "store", values)
	db, err := brock.Open(o)
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	f := storetest.OpenFollower(t, o)
	w := storetest.NewWorkload(t, db, 5)
	var last *brock.BackupInfo
	var streams [][]byte
	for round := range 6 {
		w.Write(t, 20+w.Rand.IntN(150))
		if round == 4 && o.Keys != nil {
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
		}
		assert.OK(t, db.Sync(t.Context()))
		want := storetest.ShowRetained(t, db, 0)
		from, out := f, removing{remove: func() {
			w.Write(t, 40)
			assert.Must(db.Reclaim(t.Context()))
		}}
		if round == 3 {
			from, out.remove = db, func() {}
		}
		last, err = from.Backup(t.Context(), &out, brock.BackupOptions{Since: last, Compress: round%2 == 0})
		assert.OK(t, err)
		streams = append(streams, out.Bytes())
		storetest.RestoreBackups(t, options(p, fmt.Sprint("restored ", round), storetest.NameOtherDir(values, round)), want, streams...)

		assert.OK(t, db.Sync(t.Context()))
		want = storetest.ShowRetained(t, db, 0)
		assert.OK(t, f.Checkpoint(t.Context(), p.Join(fmt.Sprint("copy ", round))))
		w.Write(t, 30)
		copied := storetest.OpenExisting(t, options(p, fmt.Sprint("copy ", round), ""))
		assert.SameText(t, "checkpoint", storetest.ShowRetained(t, copied, 0), want)
		assert.OK(t, copied.Verify(t.Context(), nil))
		storetest.NewWorkload(t, copied, 6).Write(t, 50)
	}
}

// TestCopiesOfReadOnly: a store that is only read is copied as it is, also what a crash has left
// in its journal, and no byte of it changes.
func TestCopiesOfReadOnly(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	alive := storetest.Place{FS: mem, Dir: "/", Rename: mem.Rename}
	db, err := brock.Open(alive.RetainingOptions("store", "values"))
	assert.OK(t, err)
	storetest.NewWorkload(t, db, 7).Write(t, 300)
	want := storetest.ShowRetained(t, db, 0)
	crashed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	for name, p := range map[string]storetest.Place{"closed": alive, "crashed": {FS: crashed, Dir: "/", Rename: crashed.Rename}} {
		t.Run(name, func(t *testing.T) {
			before := p.ShowFiles(t, "store", "values")
			o := p.RetainingOptions("store", "values")
			o.Mode = brock.ReadOnly
			db := storetest.OpenExisting(t, o)
			stream, info := storetest.MakeBackup(t, db, brock.BackupOptions{})
			inc, _ := storetest.MakeBackup(t, db, brock.BackupOptions{Since: info})
			storetest.RestoreBackups(t, p.RetainingOptions("new", ""), want, stream, inc)
			assert.OK(t, db.Checkpoint(t.Context(), p.Join("copy")))
			assert.SameText(t, "checkpoint", storetest.ShowRetained(t, storetest.OpenExisting(t, p.RetainingOptions("copy", "")), 0), want)
			assert.SameText(t, "the source", p.ShowFiles(t, "store", "values"), before)
		})
	}
}
