package watch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestManyOpenings: positions stay good however often the store is opened, with commits and without;
// those of a copy, too, are refused when all openings of its past are long ago.
func TestManyOpenings(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	db := assert.Must(brock.Open(o))
	storetest.Set(t, db, "k=0")
	start, old := newReplica(), newReplica()
	start.pull(t, db, brock.WatchOptions{}, 1, nil)
	assert.OK(t, db.Checkpoint(t.Context(), "copy"))
	copied := o
	copied.Dir = "copy"
	for _, o := range []brock.Options{o, copied} {
		for i := range 150 {
			if db != nil {
				assert.OK(t, db.Close())
			}
			db = assert.Must(brock.Open(o))
			if i < 70 {
				storetest.Set(t, db, fmt.Sprintf("k=%s %d", o.Dir, i))
			}
			if i == 10 && o.Dir == "db" {
				old.pull(t, db, brock.WatchOptions{}, 1, nil)
			}
		}
		if o.Dir == "db" {
			end := newReplica()
			end.at = start.at
			end.pull(t, db, brock.WatchOptions{}, -1, nil)
			assert.Equal(t, "commits", end.at.Version(), 71)
			old.pull(t, db, brock.WatchOptions{}, -1, nil)
			assert.Equal(t, "commits", old.at.Version(), 71)
		} else {
			refused(t, "of the other copy", db, brock.WatchOptions{After: old.at}, brock.ErrVersionGone)
		}
		assert.OK(t, db.Close())
		db = nil
	}
}

// TestBeginIsDurable: the position and the snapshot with which a Watch begins survive a power loss,
// unless Buffered is set.
func TestBeginIsDurable(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		mem := vfs.NewMem()
		o := options(mem)
		o.Durability = brock.Buffered
		db := storetest.Open(t, o)
		storetest.Set(t, db, "a=1")
		assert.OK(t, db.Sync(t.Context()))
		storetest.Set(t, db, "a=2")
		rep := newReplica()
		rep.pull(t, db, brock.WatchOptions{Snapshot: snapshot}, 1, nil)
		o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
		after := storetest.OpenExisting(t, o)
		storetest.Set(t, after, "b=1")
		assert.OK(t, after.Sync(t.Context()))
		rep.pull(t, after, brock.WatchOptions{}, -1, nil)
		if snapshot {
			assert.SameText(t, "replica", rep.text(), contents(t, after, 0, true))
		}
	}
}

// TestCaughtUpAtOnce: a Watch that has come to the end says so, although what it has read last did not
// match, and no progress is due.
func TestCaughtUpAtOnce(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	storetest.Set(t, db, "wanted=1")
	storetest.Set(t, db, "other=1")
	rep.lossy = true
	rep.pull(t, db, brock.WatchOptions{Prefixes: [][]byte{[]byte("wanted")}, Progress: time.Hour}, -1, nil)
	assert.Equal(t, "version", rep.at.Version(), 2)
}

// TestLaggingReaderIsHeld: a Watch that was further behind than an open one may be, and has caught up
// because the retention had it all, holds again what it has not read.
func TestLaggingReaderIsHeld(t *testing.T) {
	now := time.Now()
	o := options(vfs.NewMem())
	o.Now = func() time.Time { return now }
	o.FeedRetention, o.Durability, o.KeyspaceDefaults = brock.FeedRetention{Age: time.Hour}, brock.Buffered, brock.KeyspaceOptions{}
	db := storetest.Open(t, o)
	write := func(bytes int) {
		for range bytes / 50_000 {
			assert.OK(t, db.Set([]byte("key"), storetest.RandomBytes(3, 50_000)))
		}
		assert.OK(t, db.Sync(t.Context()))
		assert.OK(t, db.Flush(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := uint64(0)
	for c, err := range db.Watch(ctx, brock.WatchOptions{KeysOnly: true}) {
		assert.OK(t, err)
		switch {
		case c.Version == 0:
			write(100 << 20)
			last = db.Version()
		case c.Version == last:
			if c.Version > 2500 {
				return
			}
			write(20 << 20)
			now = now.Add(2 * time.Hour)
			write(1 << 20)
			now = now.Add(2 * time.Hour)
			write(1 << 20)
			last = db.Version()
		}
	}
}

// TestSnapshotHasKeyspaces: a snapshot says which keyspaces there are, also empty ones.
func TestSnapshotHasKeyspaces(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.OpenKeyspace(t, db, "empty")
	full := storetest.OpenKeyspace(t, db, "full")
	assert.OK(t, full.Set([]byte("k"), []byte("v")))
	var got []string
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{Snapshot: true}) {
		assert.OK(t, err)
		storetest.OpenKeyspace(t, db, "later")
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			got = append(got, fmt.Sprintf("%v %s %s", ch.Kind, ch.Keyspace, ch.Key))
		}
		break
	}
	assert.Equal(t, "changes", fmt.Sprint(got), "[keyspace created empty  keyspace created full  set full k]")
}
