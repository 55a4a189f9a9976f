package watch

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestLoadsOnAFullDisk: loads take the place of each other on a small disk, while a Watch that stands
// still, a Snapshot, and the retention hold history. A load that is refused leaves nothing, history goes
// before loads are refused for good, and a replica begins anew.
func TestLoadsOnAFullDisk(t *testing.T) {
	r := draw.Rand(t)
	mem := vfs.NewMem()
	o := options(mem)
	o.KeyspaceDefaults, o.DiskLimit = brock.KeyspaceOptions{ValueThreshold: []int{0, 200}[r.IntN(2)]}, 8<<20
	db := assert.Must(brock.Open(o))
	defer func() { assert.OK(t, db.Close()) }()
	storetest.Set(t, db, "first=1")
	rep := newReplica()
	rep.lossy = true
	rep.pull(t, db, brock.WatchOptions{Snapshot: true}, 1, nil)
	full, gone, loads := 0, 0, 0
	var stop func()
	for i := range 60 {
		if i%10 == 0 {
			if stop != nil {
				stop()
			}
			// It reads one commit and stands still.
			var next func() (*brock.Commit, error, bool)
			next, stop = iter.Pull2(db.Watch(t.Context(), brock.WatchOptions{}))
			_, err, _ := next()
			assert.OK(t, err)
		}
		var k *brock.Snapshot
		if i%7 == 3 {
			k = assert.Must(db.Snapshot())
		}
		before := contents(t, db, 0, true)
		err := loadAnew(db, r.IntN(1000), 1000, 500+r.IntN(800))
		switch {
		case errors.Is(err, brock.ErrNoSpace):
			full++
			assert.SameText(t, "after a load that was refused", contents(t, db, 0, true), before)
		default:
			assert.OK(t, err)
			loads++
		}
		if k != nil {
			var stream bytes.Buffer
			_, err := k.Backup(t.Context(), &stream, brock.BackupOptions{})
			assert.OK(t, err)
			k.Close()
		}
		if r.IntN(4) > 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for c, err := range db.Watch(ctx, brock.WatchOptions{After: rep.at}) {
			if errors.Is(err, brock.ErrVersionGone) {
				gone++
				rep = newReplica()
				rep.lossy = true
				rep.pull(t, db, brock.WatchOptions{Snapshot: true}, -1, nil)
				break
			}
			assert.OK(t, err)
			if rep.apply(t, c); c.Caught {
				break
			}
		}
		cancel()
		assert.SameText(t, "replica", rep.text(), contents(t, db, 0, true))
	}
	stop()
	t.Logf("%d loads, %d were refused, history was gone %d times", loads, full, gone)
	if loads < 20 {
		t.Errorf("only %d loads", loads)
	}
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	if used := mem.Used(); used > o.DiskLimit*3/2 {
		t.Errorf("%d bytes on the disk", used)
	}
	assert.Equal(t, "Watches", db.Metrics().Tree.Watches, 0)
	assert.Equal(t, "pinned", storetest.IsPinned(db), false)
}
