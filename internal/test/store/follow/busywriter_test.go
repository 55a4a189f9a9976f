package follow

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestFollowBehindBusyWriter opens a follower of a store with many files, while the writer
// flushes again and again: far more often than the follower can open all of them. What was
// opened before stays open, so that it arrives.
func TestFollowBehindBusyWriter(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	o := p.TinyOptions("store", "")
	db := storetest.Open(t, o)
	n := 0
	write := func() {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %05d", n), storetest.RandomBytes(n, 20_000)))
		n++
	}
	for range 300 {
		write()
	}
	assert.OK(t, db.Flush(t.Context()))
	files := assert.Must(p.FS.List(p.Join("store")))
	if len(files) < 60 {
		t.Fatalf("%d files", len(files))
	}
	opened, flushes := 0, 0
	o.FS = faultfs.New(p.FS, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind != faultfs.Open {
			return
		}
		if opened++; opened%30 == 0 && flushes < 40 {
			flushes++
			write()
			assert.OK(t, db.Flush(t.Context()))
		}
	}})
	f := storetest.OpenFollower(t, o)
	if opened > 3*len(files) || flushes > 10 {
		t.Errorf("%d files of %d were opened, beside %d flushes", opened, len(files), flushes)
	}
	assert.SameText(t, "the follower", storetest.ShowRetained(t, f, 0), storetest.ShowRetained(t, db, f.Version()))
}
