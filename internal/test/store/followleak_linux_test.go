package store

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// held counts the descriptors and mappings that this process has of files below dir.
func held(t testing.TB, dir string) (n int) {
	t.Helper()
	for _, fd := range must2(os.ReadDir("/proc/self/fd")) {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n + strings.Count(string(must2(os.ReadFile("/proc/self/maps"))), dir)
}

// TestFollowersHoldNothing has each operation fail that a follower's Open and its Refresh
// make, once and from then on. Whatever comes of it, no file stays open or mapped.
func TestFollowersHoldNothing(t *testing.T) {
	p := place{fs: vfs.OS(), dir: t.TempDir()}
	for times, every := range map[int]int{1: 19, faultfs.Always: 89} { // the latter is tried again for half a second
		for at, struck := 1, true; struck; at += every {
			o := p.retaining("store", "")
			db := must2(brock.Open(o))
			w := newBusy(t, db, uint64(at))
			churn(t, w)
			must(t, db.Close())
			fs := faultfs.New(p.fs, faultfs.Options{})
			o.FS, o.Mode = fs, brock.Follow
			fs.Inject(faultfs.Fault{Nth: at, Times: times})
			f, err := brock.Open(o)
			if err == nil {
				old := must2(f.Begin(t.Context(), brock.TxnOptions{}))
				o.FS, o.Mode = p.fs, brock.ReadWrite
				db := must2(brock.Open(o))
				w := newBusy(t, db, uint64(at))
				churn(t, w)
				must(t, db.Close())
				_, _ = f.Refresh(t.Context())
				old.Discard()
				_ = f.Close()
			}
			wantEqual(t, "descriptors and mappings", held(t, p.dir), 0)
			must(t, os.RemoveAll(p.in("store")))
			struck = fs.Struck() > 0
		}
	}
}

// TestFollowersGiveBack holds transactions over many Refreshes of a follower. When they
// have ended, it has no more files and memory than a new one.
func TestFollowersGiveBack(t *testing.T) {
	p := place{fs: vfs.OS(), dir: t.TempDir()}
	o := p.retaining("store", "")
	o.Maintenance.IdleAfter = time.Hour // the new follower has what the old one has
	db := openTest(t, o)
	w := newBusy(t, db, 1)
	f := follow(t, o)
	var old []*brock.Txn
	for range 6 {
		churn(t, w)
		refreshed(t, f)
		txn := must2(f.Begin(t.Context(), brock.TxnOptions{}))
		show(txn.Items(brock.IteratorOptions{}))
		old = append(old, txn)
	}
	most := f.Metrics()
	for _, txn := range old {
		txn.Discard()
	}
	fresh := follow(t, o).Metrics()
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
	p := place{fs: vfs.OS(), dir: t.TempDir()}
	o := p.retaining("store", "")
	db := must2(brock.Open(o))
	w := newBusy(t, db, 1)
	for range 20 {
		w.steps(t, 20)
		must(t, db.Flush(t.Context()))
	}
	must(t, db.Close())
	f := follow(t, o)
	before, during := held(t, p.in("store")), 0
	out := removing{remove: func() { during = held(t, p.in("store")) }}
	must2(f.Backup(t.Context(), &out, brock.BackupOptions{}))
	if more := during - before; more > 8 {
		t.Errorf("a backup has %d more files open, of %d", more, before)
	}
	must(t, f.Checkpoint(t.Context(), p.in("copy")))
	wantEqual(t, "descriptors and mappings", held(t, p.in("store")), before)
}

// What lost transactions of a closed store have mapped is given back, unless they have handed out
// slices of it.
func TestClosedStoresAreUnmapped(t *testing.T) {
	for _, l := range leaving {
		if l.lends {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			o := brock.Options{Dir: t.TempDir(), Durability: brock.Buffered}
			db := must2(brock.Open(o))
			must(t, db.Set(b("a"), incompressible(1, 100<<10)))
			must(t, db.Close())
			own(t, o, l.leave)
			collect(t, func() bool { return held(t, o.Dir) == 0 })
		})
	}
}
