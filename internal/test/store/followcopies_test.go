package store

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock"
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
	for _, values := range []string{"", "values"} {
		for name, options := range map[string]func(place, string, string) brock.Options{"plain": place.retaining, "encrypted": place.keyed} {
			t.Run(name+",ValueDir="+values, func(t *testing.T) {
				onEach(t, func(t *testing.T, p place) { copyFollowed(t, p, options, values) })
			})
		}
	}
}

func copyFollowed(t *testing.T, p place, options func(place, string, string) brock.Options, values string) {
	o := options(p, "store", values)
	db, err := brock.Open(o)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	f := follow(t, o)
	w := newBusy(t, db, 5)
	var last *brock.BackupInfo
	var streams [][]byte
	for round := range 6 {
		w.steps(t, 20+w.rng.IntN(150))
		if round == 4 && o.Keys != nil {
			must(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
		}
		must(t, db.Sync(t.Context()))
		want := retained(t, db, 0)
		from, out := f, removing{remove: func() {
			w.steps(t, 40)
			must2(db.Reclaim(t.Context()))
		}}
		if round == 3 {
			from, out.remove = db, func() {}
		}
		last, err = from.Backup(t.Context(), &out, brock.BackupOptions{Since: last, Compress: round%2 == 0})
		must(t, err)
		streams = append(streams, out.Bytes())
		restored(t, options(p, fmt.Sprint("restored ", round), aside(values, round)), want, streams...)

		must(t, db.Sync(t.Context()))
		want = retained(t, db, 0)
		must(t, f.Checkpoint(t.Context(), p.in(fmt.Sprint("copy ", round))))
		w.steps(t, 30)
		copied := opened(t, options(p, fmt.Sprint("copy ", round), ""))
		same(t, "checkpoint", retained(t, copied, 0), want)
		must(t, copied.Verify(t.Context(), nil))
		newBusy(t, copied, 6).steps(t, 50)
	}
}

// TestCopiesOfReadOnly: a store that is only read is copied as it is, also what a crash has left
// in its journal, and no byte of it changes.
func TestCopiesOfReadOnly(t *testing.T) {
	mem := vfs.NewMem()
	alive := place{mem, "/", mem.Rename}
	db, err := brock.Open(alive.retaining("store", "values"))
	must(t, err)
	newBusy(t, db, 7).steps(t, 300)
	want := retained(t, db, 0)
	crashed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	must(t, db.Close())
	for name, p := range map[string]place{"closed": alive, "crashed": {crashed, "/", crashed.Rename}} {
		t.Run(name, func(t *testing.T) {
			before := p.contents(t, "store", "values")
			o := p.retaining("store", "values")
			o.Mode = brock.ReadOnly
			db := opened(t, o)
			stream, info := backedUp(t, db, brock.BackupOptions{})
			inc, _ := backedUp(t, db, brock.BackupOptions{Since: info})
			restored(t, p.retaining("new", ""), want, stream, inc)
			must(t, db.Checkpoint(t.Context(), p.in("copy")))
			same(t, "checkpoint", retained(t, opened(t, p.retaining("copy", "")), 0), want)
			same(t, "the source", p.contents(t, "store", "values"), before)
		})
	}
}
