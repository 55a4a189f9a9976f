package store

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// TestFollowBehindBusyWriter opens a follower of a store with many files, while the writer
// flushes again and again: far more often than the follower can open all of them. What was
// opened before stays open, so that it arrives.
func TestFollowBehindBusyWriter(t *testing.T) {
	p := place{fs: vfs.NewMem(), dir: "/"}
	o := p.tiny("store", "")
	db := openTest(t, o)
	n := 0
	write := func() {
		must(t, db.Set(fmt.Appendf(nil, "key %05d", n), incompressible(n, 20_000)))
		n++
	}
	for range 300 {
		write()
	}
	must(t, db.Flush(t.Context()))
	files := must2(p.fs.List(p.in("store")))
	if len(files) < 60 {
		t.Fatalf("%d files", len(files))
	}
	opened, flushes := 0, 0
	o.FS = faultfs.New(p.fs, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind != faultfs.Open {
			return
		}
		if opened++; opened%30 == 0 && flushes < 40 {
			flushes++
			write()
			must(t, db.Flush(t.Context()))
		}
	}})
	f := follow(t, o)
	if opened > 3*len(files) || flushes > 10 {
		t.Errorf("%d files of %d were opened, beside %d flushes", opened, len(files), flushes)
	}
	same(t, "the follower", retained(t, f, 0), retained(t, db, f.Version()))
}
