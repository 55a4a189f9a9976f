package watch

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
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
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	o := options(vfs.NewMem())
	o.Now = func() time.Time { return time.Unix(0, now.Load()) }
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
			now.Add(int64(2 * time.Hour))
			write(1 << 20)
			now.Add(int64(2 * time.Hour))
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

// TestDamageForks: a store that is read up to damage, or was salvaged, refuses the positions of what it
// lacks, also when it has given their versions to other commits.
func TestDamageForks(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	db := assert.Must(brock.Open(o))
	var positions []brock.Position
	rep := newReplica()
	for i := range 30 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), storetest.RandomBytes(i, 3000)))
		rep.pull(t, db, brock.WatchOptions{}, -1, nil)
		positions = append(positions, rep.at)
	}
	assert.OK(t, db.Close())
	names, err := mem.List("db")
	assert.OK(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			storetest.FlipBit(t, mem, "db/"+name, 15*3000)
		}
	}
	o.Mode, o.Recover = brock.ReadOnly, brock.UpTo
	upTo := storetest.OpenExisting(t, o)
	left := upTo.Version()
	if left < 5 || left > 25 {
		t.Fatalf("%d commits are left", left)
	}
	// All that it has, and then it waits.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := uint64(0)
	for c, err := range upTo.Watch(ctx, brock.WatchOptions{After: positions[0]}) {
		if err != nil {
			assert.Error(t, "at the end", err, context.Canceled)
			break
		}
		if last = c.Version; c.Caught {
			cancel()
		}
	}
	assert.Equal(t, "up to", last, left)
	refused(t, "behind the damage", upTo, brock.WatchOptions{After: positions[left]}, brock.ErrVersionGone)
	to := brock.Options{Dir: "salvaged", FS: mem}
	assert.OK(t, assert.ErrorOf(brock.Salvage(t.Context(), brock.Options{Dir: "db", FS: mem}, to, nil)))
	salvaged := storetest.OpenExisting(t, to)
	for range 40 {
		storetest.Set(t, salvaged, "other=1")
	}
	for _, p := range positions {
		refused(t, fmt.Sprintf("%v, in what was salvaged", p), salvaged, brock.WatchOptions{After: p}, brock.ErrVersionGone)
	}
	r := newReplica()
	r.pull(t, salvaged, brock.WatchOptions{Snapshot: true}, -1, nil)
	assert.SameText(t, "salvaged", r.text(), contents(t, salvaged, 0, true))
}

// TestOlderBackup: positions behind a backup are refused by the store that it was restored to, when that
// has given their versions to other commits, and those before it, too.
func TestOlderBackup(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	db := storetest.Open(t, o)
	storetest.Set(t, db, "k=1")
	stream, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
	rep := newReplica()
	var positions []brock.Position
	for i := range 20 {
		storetest.Set(t, db, fmt.Sprintf("k=%d", i))
		rep.pull(t, db, brock.WatchOptions{}, -1, nil)
		positions = append(positions, rep.at)
	}
	restored := o
	restored.Dir = "restored"
	assert.OK(t, assert.ErrorOf(brock.Restore(t.Context(), bytes.NewReader(stream), brock.Options{Dir: "restored", FS: mem})))
	fork := assert.Must(brock.Open(restored))
	for i := range 40 {
		storetest.Set(t, fork, fmt.Sprintf("k=other %d", i))
		if i%5 == 0 {
			assert.OK(t, fork.Close())
			fork = assert.Must(brock.Open(restored))
		}
		for _, p := range positions {
			refused(t, fmt.Sprintf("%v, at %d", p, i), fork, brock.WatchOptions{After: p}, brock.ErrVersionGone)
		}
	}
	assert.OK(t, fork.Close())
}

// whileFlushing calls fn once, when a run is begun.
type whileFlushing struct {
	vfs.FS
	fn *func()
}

func (f whileFlushing) OpenDirs(names ...string) (vfs.Dirs, error) {
	dirs, err := f.FS.OpenDirs(names...)
	return flushedDirs{dirs, f.fn}, err
}

type flushedDirs struct {
	vfs.Dirs
	fn *func()
}

func (f flushedDirs) Create(path string) (vfs.File, error) {
	if fn := *f.fn; fn != nil && strings.HasSuffix(path, ".run") {
		*f.fn = nil
		fn()
	}
	return f.Dirs.Create(path)
}

// TestLostCommits: commits that a power loss took are left out at once after Open, also in a store that
// is only read, though nothing says yet that they were lost.
func TestLostCommits(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	var during func()
	o.FS, o.Durability = whileFlushing{mem, &during}, brock.Buffered
	db := assert.Must(brock.Open(o))
	rep := newReplica()
	rep.lossy = true
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	storetest.Set(t, db, "a=1")
	storetest.Set(t, db, "a=2")
	lost := newReplica()
	during = func() { // the flush does not record its version
		storetest.Set(t, db, "lost=1")
		lost.pull(t, db, brock.WatchOptions{Buffered: true}, 1, nil)
	}
	assert.OK(t, db.Flush(t.Context()))
	o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	assert.OK(t, db.Close())
	for _, o.Mode = range []brock.OpenMode{brock.ReadOnly, brock.ReadWrite} {
		db := assert.Must(brock.Open(o))
		assert.Equal(t, "version", db.Version(), 2)
		refused(t, "what was lost", db, brock.WatchOptions{After: lost.at}, brock.ErrVersionGone)
		r := newReplica()
		r.at, r.lossy = rep.at, true
		r.pull(t, db, brock.WatchOptions{}, -1, nil)
		assert.SameText(t, "replica", r.text(), contents(t, db, 0, true))
		assert.Equal(t, "up to", r.at.Version(), 2)
		if o.Mode == brock.ReadWrite { // another commit gets the version of the lost one
			storetest.Set(t, db, "b=1")
			assert.OK(t, db.Sync(t.Context()))
			assert.OK(t, db.Close())
			db = assert.Must(brock.Open(o))
			r.pull(t, db, brock.WatchOptions{}, -1, nil)
			assert.SameText(t, "replica", r.text(), contents(t, db, 0, true))
			refused(t, "what was lost", db, brock.WatchOptions{After: lost.at}, brock.ErrVersionGone)
		}
		assert.OK(t, db.Close())
	}
}

// TestFollowerBehindManifest: the manifest may name a version whose frame a follower does not show yet,
// as the writer may take it back. A Watch of the follower waits for it.
func TestFollowerBehindManifest(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	var during func()
	o.FS, o.Durability = whileFlushing{mem, &during}, brock.Buffered
	db := storetest.Open(t, o)
	storetest.Set(t, db, "a=1")
	assert.OK(t, db.Sync(t.Context()))
	o.FS = mem
	f := storetest.OpenFollower(t, o)
	rep := newReplica()
	rep.pull(t, f, brock.WatchOptions{Snapshot: true}, 1, nil)
	during = func() { storetest.Set(t, db, "late=1") }
	assert.OK(t, db.Flush(t.Context()))
	rep.pull(t, f, brock.WatchOptions{}, -1, nil)
	storetest.Set(t, db, "b=1")
	assert.OK(t, db.Sync(t.Context()))
	rep.pull(t, f, brock.WatchOptions{}, -1, nil)
	assert.SameText(t, "replica", rep.text(), contents(t, db, 0, true))
}
