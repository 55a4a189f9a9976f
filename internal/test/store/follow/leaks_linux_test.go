package follow

import (
	"os"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestFollowersHoldNothing has each operation fail that a follower's Open and its Refresh
// make, once and from then on. Whatever comes of it, no file stays open or mapped.
func TestFollowersHoldNothing(t *testing.T) {
	p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir()}
	for times, every := range map[int]int{1: 19, faultfs.Always: 89} { // the latter is tried again for half a second
		for at, struck := 1, true; struck; at += every {
			o := p.RetainingOptions("store", "")
			db := assert.Must(brock.Open(o))
			w := storetest.NewWorkload(t, db, uint64(at))
			churn(t, w)
			assert.OK(t, db.Close())
			fs := faultfs.New(p.FS, faultfs.Options{})
			o.FS, o.Mode = fs, brock.Follow
			fs.Inject(faultfs.Fault{Nth: at, Times: times})
			f, err := brock.Open(o)
			if err == nil {
				old := assert.Must(f.Begin(t.Context(), brock.TxnOptions{}))
				o.FS, o.Mode = p.FS, brock.ReadWrite
				db := assert.Must(brock.Open(o))
				w := storetest.NewWorkload(t, db, uint64(at))
				churn(t, w)
				assert.OK(t, db.Close())
				_, _ = f.Refresh(t.Context())
				old.Discard()
				_ = f.Close()
			}
			assert.Equal(t, "descriptors and mappings", process.CountHeld(t, p.Dir), 0)
			assert.OK(t, os.RemoveAll(p.Join("store")))
			struck = fs.Struck() > 0
		}
	}
}

// TestFollowersGiveBack holds transactions over many Refreshes of a follower. When they
// have ended, it has no more files and memory than a new one.
func TestFollowersGiveBack(t *testing.T) {
	p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir()}
	o := p.RetainingOptions("store", "")
	o.Maintenance.IdleAfter = time.Hour // the new follower has what the old one has
	db := storetest.Open(t, o)
	w := storetest.NewWorkload(t, db, 1)
	f := storetest.OpenFollower(t, o)
	var old []*brock.Txn
	for range 6 {
		churn(t, w)
		refreshed(t, f)
		txn := assert.Must(f.Begin(t.Context(), brock.TxnOptions{}))
		storetest.ShowItems(txn.Items(brock.IteratorOptions{}))
		old = append(old, txn)
	}
	most := f.Metrics()
	for _, txn := range old {
		txn.Discard()
	}
	fresh := storetest.OpenFollower(t, o).Metrics()
	if most.Tree.OpenFiles <= fresh.Tree.OpenFiles || most.Tree.Memory.Memtables <= fresh.Tree.Memory.Memtables {
		t.Errorf("transactions held %+v, a new follower has %+v", most.Tree, fresh.Tree)
	}
	deadline.Wait(t, "transactions that have ended hold nothing", func() bool {
		m := f.Metrics()
		return m.Tree.OpenFiles <= fresh.Tree.OpenFiles && m.Tree.Memory.Memtables <= fresh.Tree.Memory.Memtables
	})
}

// TestCopiesOfFollowedOpenFewFiles: a copy reads the files that the follower has open, and gives
// them back.
func TestCopiesOfFollowedOpenFewFiles(t *testing.T) {
	p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir()}
	o := p.RetainingOptions("store", "")
	db := assert.Must(brock.Open(o))
	w := storetest.NewWorkload(t, db, 1)
	for range 20 {
		w.Write(t, 20)
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, db.Close())
	f := storetest.OpenFollower(t, o)
	before, during := process.CountHeld(t, p.Join("store")), 0
	out := removing{remove: func() { during = process.CountHeld(t, p.Join("store")) }}
	assert.Must(f.Backup(t.Context(), &out, brock.BackupOptions{}))
	if more := during - before; more > 8 {
		t.Errorf("a backup has %d more files open, of %d", more, before)
	}
	assert.OK(t, f.Checkpoint(t.Context(), p.Join("copy")))
	assert.Equal(t, "descriptors and mappings", process.CountHeld(t, p.Join("store")), before)
}
