// Package watch tests DB.Watch: the feed of what is committed.
package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestChanges: each kind of change says what it does.
func TestChanges(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	expires := time.UnixMilli(4_000_000_000_000)
	step := 0
	for c, err := range db.Watch(ctx, brock.WatchOptions{}) {
		assert.OK(t, err)
		var parts []string
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			s := fmt.Sprintf("%v %q %q", ch.Kind, ch.Keyspace, ch.Key)
			if ch.Kind == brock.ChangeSet {
				s += fmt.Sprintf("=%q %d", assert.Must(ch.Value()), ch.Meta)
			} else if _, err := ch.Value(); !errors.Is(err, brock.ErrInvalid) {
				t.Errorf("value of a %v: %v", ch.Kind, err)
			}
			if ch.Upper != nil {
				s += fmt.Sprintf(" up to %q", ch.Upper)
			}
			if !ch.ExpiresAt.IsZero() {
				s += fmt.Sprint(" expires ", ch.ExpiresAt.UnixMilli())
			}
			parts = append(parts, s)
		}
		got = append(got, fmt.Sprintf("%d: %s", c.Version, strings.Join(parts, ", ")))
		if !c.Caught {
			t.Errorf("version %d: there is nothing newer", c.Version)
		}
		switch step++; step {
		case 1:
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				return errors.Join(txn.Set([]byte("a"), []byte("1")), txn.SetEntry(&brock.Entry{Key: []byte("b"), Meta: 9, ExpiresAt: expires}), txn.Delete([]byte("c")))
			}))
		case 2:
			assert.OK(t, db.DeleteRange([]byte("a"), []byte("b")))
		case 3:
			assert.OK(t, db.DeleteRange(nil, nil))
		case 4:
			_, err = db.Keyspace("users")
			assert.OK(t, err)
		case 5:
			ks := assert.Must(db.Keyspace("users"))
			assert.OK(t, ks.Set([]byte("u"), bytes.Repeat([]byte("v"), 2000)))
		case 6:
			assert.OK(t, assert.Must(db.Keyspace("users")).Drop(t.Context()))
		case 7:
			cancel()
			goto end
		}
	}
end:
	assert.Equal(t, "changes", strings.ReplaceAll(strings.Join(got, "\n"), strings.Repeat("v", 2000), "v…"), `0: 
1: set "" "a"="1" 0, set "" "b"="" 9 expires 4000000000000, delete "" "c"
2: delete range "" "a" up to "b"
3: delete range "" ""
4: keyspace created "users" ""
5: set "users" "u"="v…" 0
6: keyspace dropped "users" ""`)
}

// TestFilter: keyspaces and prefixes leave out all else; a filter that matches nothing goes on
// behind what it has left out, over reopening, when the journal has long gone on.
func TestFilter(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.FeedRetention.Bytes = 1 << 20
	db := assert.Must(brock.Open(o))
	users := storetest.OpenKeyspace(t, db, "users")
	for i := range 100 {
		storetest.Set(t, db, fmt.Sprintf("a%02d=1", i), fmt.Sprintf("b%02d=1", i))
		assert.OK(t, users.Set(fmt.Appendf(nil, "a%02d", i), nil))
	}
	count := func(o brock.WatchOptions) (n int, last *brock.Commit) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for c, err := range db.Watch(ctx, o) {
			assert.OK(t, err)
			for _, err := range c.Changes() {
				assert.OK(t, err)
				n++
			}
			if last = c; c.Caught {
				break
			}
		}
		return n, last
	}
	_, start := count(brock.WatchOptions{})
	for i := range 50 {
		storetest.Set(t, db, fmt.Sprintf("a%02d=2", i), fmt.Sprintf("b%02d", i))
		assert.OK(t, users.Set(fmt.Appendf(nil, "a%02d", i), nil))
	}
	assert.OK(t, db.DeleteRange([]byte("a"), []byte("c")))
	for _, c := range []struct {
		o    brock.WatchOptions
		want int
	}{
		{brock.WatchOptions{}, 151},
		{brock.WatchOptions{Keyspaces: []*brock.Keyspace{users}}, 50},
		{brock.WatchOptions{Keyspaces: []*brock.Keyspace{nil}}, 101},
		{brock.WatchOptions{Prefixes: [][]byte{[]byte("a1"), []byte("b")}}, 50 + 1 + 10 + 10},
		{brock.WatchOptions{Keyspaces: []*brock.Keyspace{users, nil}, Prefixes: [][]byte{[]byte("b")}}, 51},
		{brock.WatchOptions{Keyspaces: []*brock.Keyspace{users}, Prefixes: [][]byte{[]byte("b")}}, 0},
		{brock.WatchOptions{Prefixes: [][]byte{[]byte("c")}}, 0},
	} {
		c.o.After, c.o.Progress = start.Position(), time.Nanosecond
		if n, last := count(c.o); n != c.want || last.Version != db.Version() {
			t.Errorf("%+v: %d changes up to version %d, want %d up to %d", c.o, n, last.Version, c.want, db.Version())
		}
	}
	// The rare consumer is far behind what it has seen, and not behind where it is: history is 1 MB, and
	// 12 MB pass by.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at brock.Position
	for c, err := range db.Watch(ctx, brock.WatchOptions{Prefixes: [][]byte{[]byte("never")}, Progress: time.Nanosecond}) {
		assert.OK(t, err)
		if at = c.Position(); c.Version >= 4000 {
			break
		}
		for i := range 20 {
			if c.Caught {
				assert.OK(t, db.Set([]byte("k"), storetest.RandomBytes(i, 3000)))
			}
		}
	}
	assert.OK(t, db.Close())
	db = storetest.OpenExisting(t, o)
	if _, last := count(brock.WatchOptions{After: at, Prefixes: [][]byte{[]byte("never")}, Progress: time.Nanosecond}); last.Version != db.Version() {
		t.Errorf("version %d of %d", last.Version, db.Version())
	}
}

// refused wants a Watch to end with an error at once.
func refused(t *testing.T, what string, db *brock.DB, o brock.WatchOptions, want error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for c, err := range db.Watch(ctx, o) {
		if !errors.Is(err, want) {
			t.Errorf("%s: commit %+v, error %v, want %v", what, c, err, want)
		}
		return
	}
	t.Errorf("%s: no error", what)
}

// TestRetention: without FeedRetention history goes with the flush that needs it no longer; with it
// it stays within its bound, also over Open; what is gone is refused, and never left out.
func TestRetention(t *testing.T) {
	for _, keep := range []int64{0, 1 << 20} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			mem := vfs.NewMem()
			o := options(mem)
			o.FeedRetention, o.KeyspaceDefaults = brock.FeedRetention{Bytes: keep}, brock.KeyspaceOptions{}
			db := assert.Must(brock.Open(o))
			rep := newReplica()
			rep.pull(t, db, brock.WatchOptions{}, 1, nil)
			var positions []brock.Position
			tail := newReplica()
			tail.at = rep.at
			for i := range 400 {
				assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i%10), storetest.RandomBytes(i, 20_000)))
				tail.pull(t, db, brock.WatchOptions{}, -1, nil)
				positions = append(positions, tail.at)
				if i%100 == 99 {
					assert.OK(t, db.Close())
					db = assert.Must(brock.Open(o))
				}
			}
			assert.OK(t, db.Flush(t.Context()))
			_, err := db.Reclaim(t.Context())
			assert.OK(t, err)
			refused(t, "the first position", db, brock.WatchOptions{After: rep.at}, brock.ErrVersionGone)
			// History goes, and files that entries need stay.
			assert.SameText(t, "contents", tail.text(), contents(t, db, 0, true))
			assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
			// The newest place is always there, and an older one as far as the bound allows.
			oldest := len(positions)
			for i := len(positions) - 1; i >= 0; i-- {
				r := newReplica()
				r.at = positions[i]
				ok := true
				for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: r.at}) {
					if errors.Is(err, brock.ErrVersionGone) {
						ok = false
						break
					}
					assert.OK(t, err)
					if r.apply(t, c); c.Caught {
						break
					}
				}
				if !ok {
					break
				}
				oldest = i
				if r.at != positions[len(positions)-1] {
					t.Fatalf("from %v to %v", positions[i], r.at)
				}
			}
			kept := len(positions) - 1 - oldest
			t.Logf("%d commits of 20 kB are kept", kept)
			if keep == 0 && kept != 0 || keep > 0 && (kept < 20 || kept > 52) {
				t.Errorf("%d commits are kept", kept)
			}
			if used := mem.Used(); used > 3<<20 {
				t.Errorf("%d bytes in files", used)
			}
			assert.OK(t, db.Close())
		})
	}
}

// TestStoppedConsumer: what an open Watch has not read stays, up to its bound; then it gets an error,
// and the files go.
func TestStoppedConsumer(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.FeedRetention, o.KeyspaceDefaults, o.Durability = brock.FeedRetention{}, brock.KeyspaceOptions{}, brock.Buffered
	db := storetest.Open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	write := func(bytes int) {
		for range bytes / 50_000 {
			assert.OK(t, db.Set([]byte("key"), storetest.RandomBytes(3, 50_000)))
		}
		assert.OK(t, db.Sync(t.Context()))
		assert.OK(t, db.Flush(t.Context()))
	}
	n := 0
	for c, err := range db.Watch(ctx, brock.WatchOptions{}) {
		switch n++; {
		case n == 1:
			write(40 << 20) // less than is held
		case err != nil:
			assert.Error(t, "behind the bound", err, brock.ErrVersionGone)
			if used := mem.Used(); used > 8<<20 {
				t.Errorf("%d bytes are in files", used)
			}
			return
		case c.Version == 800:
			write(100 << 20)
			_, err := db.Reclaim(t.Context())
			assert.OK(t, err)
		case c.Version > 1700:
			t.Fatal("more is held than the bound")
		}
	}
}

// TestForks: a position is refused by every copy of its store that goes on by itself, and by the store
// that lost it.
func TestForks(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	db := storetest.Open(t, o)
	rep := newReplica()
	for i := range 10 {
		storetest.Set(t, db, fmt.Sprintf("k=%d", i))
	}
	rep.pull(t, db, brock.WatchOptions{}, -1, nil)
	assert.OK(t, db.Checkpoint(t.Context(), "copy"))
	stream, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
	storetest.Set(t, db, "k=new")
	refused(t, "another text", db, brock.WatchOptions{After: assert.Must(brock.ParsePosition("5-00000000000000aa"))}, brock.ErrVersionGone)
	for _, dir := range []string{"copy", "restored"} {
		c := o
		c.Dir = dir
		if dir == "restored" {
			assert.OK(t, assert.ErrorOf(brock.Restore(t.Context(), bytes.NewReader(stream), brock.Options{Dir: dir, FS: mem})))
		}
		fork := storetest.OpenExisting(t, c)
		storetest.Set(t, fork, "k=other")
		refused(t, dir, fork, brock.WatchOptions{After: rep.at}, brock.ErrVersionGone)
		r := newReplica()
		r.pull(t, fork, brock.WatchOptions{Snapshot: true}, -1, nil)
		assert.SameText(t, dir, r.text(), contents(t, fork, 0, true))
		refused(t, "the store", db, brock.WatchOptions{After: r.at}, brock.ErrVersionGone)
	}
	rep.pull(t, db, brock.WatchOptions{}, -1, nil)
	assert.SameText(t, "the store itself", rep.text(), contents(t, db, 0, true))
}

// TestPowerLoss: what a Watch has yielded survives a power loss, and the Watch goes on behind it. With
// Buffered, what is lost is refused.
func TestPowerLoss(t *testing.T) {
	rounds := 24
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		r := draw.Rand(t)
		mem := vfs.NewMem()
		o := options(mem)
		db := assert.Must(brock.Open(o))
		w := &writer{t: t, r: r, db: db, expires: time.Now().Add(time.Hour), large: true}
		rep, buffered := newReplica(), newReplica()
		rep.lossy = true
		rep.pull(t, db, brock.WatchOptions{}, 1, nil)
		buffered.at = rep.at
		for range 30 + r.IntN(60) {
			if w.step(); r.IntN(3) == 0 {
				rep.pull(t, db, brock.WatchOptions{}, -1, nil)
			}
		}
		rep.pull(t, db, brock.WatchOptions{}, -1, nil)
		buffered.pull(t, db, brock.WatchOptions{Buffered: true}, -1, nil)
		assert.Equal(t, "with Buffered", buffered.at.Version(), db.Version())
		o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: r.Uint64()})
		assert.OK(t, db.Close())
		db = assert.Must(brock.Open(o))
		if db.Version() < rep.at.Version() {
			t.Fatalf("round %d: version %d was yielded, %d is left", round, rep.at.Version(), db.Version())
		}
		lost := db.Version() < buffered.at.Version()
		if lost {
			refused(t, "a commit that is lost", db, brock.WatchOptions{After: buffered.at}, brock.ErrVersionGone)
		}
		w.db = db
		for range 20 {
			w.step()
		}
		if lost {
			refused(t, "a commit that was lost", db, brock.WatchOptions{After: buffered.at}, brock.ErrVersionGone)
		}
		assert.OK(t, db.Sync(t.Context()))
		rep.pull(t, db, brock.WatchOptions{}, -1, nil)
		assert.SameText(t, fmt.Sprintf("round %d", round), rep.text(), contents(t, db, 0, true))
		assert.OK(t, db.Close())
	}
}

// TestFollowerWatches: a Watch of a follower sees the same, while the writer goes on.
func TestFollowerWatches(t *testing.T) {
	r := draw.Rand(t)
	o := options(vfs.NewMem())
	db := storetest.Open(t, o)
	storetest.Set(t, db, "first=1")
	f := storetest.OpenFollower(t, o)
	w := &writer{t: t, r: r, db: db, expires: time.Now().Add(time.Hour), large: true}
	var done sync.WaitGroup
	defer done.Wait()
	started := make(chan struct{})
	done.Go(func() {
		<-started
		for range 150 {
			w.step()
		}
		assert.OK(t, db.Sync(t.Context()))
		storetest.Set(t, db, "last=1")
	})
	rep := newReplica()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for c, err := range f.Watch(ctx, brock.WatchOptions{Snapshot: true}) {
		assert.OK(t, err)
		rep.apply(t, c)
		if c.Snapshot {
			close(started)
		}
		if _, ok := rep.keyspaces[""]["last"]; ok {
			break
		}
	}
	done.Wait()
	assert.SameText(t, "replica", rep.text(), contents(t, db, 0, true))
}

// TestConcurrent: several Watches beside several writers and background work see each commit once, in
// order and whole: each transaction writes one number to three keys.
func TestConcurrent(t *testing.T) {
	o := options(vfs.NewMem())
	o.Keys = storetest.DrawKeys(t)
	db := storetest.Open(t, o)
	const writers, commits = 4, 150
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 3 {
		ready := make(chan struct{})
		all.Go(func() {
			seen, last := 0, uint64(0)
			for c, err := range db.Watch(ctx, brock.WatchOptions{}) {
				if err != nil {
					t.Error(err)
					return
				}
				if c.Version != last+1 && (c.Version != last || last == 0 && seen > 0) {
					t.Errorf("version %d after %d", c.Version, last)
				}
				last = c.Version
				var values []string
				for ch, err := range c.Changes() {
					if err != nil {
						t.Error(err)
						return
					}
					v, err := ch.Value()
					if err != nil {
						t.Error(err)
						return
					}
					values = append(values, string(v))
				}
				if len(values) > 0 {
					seen++
					if len(values) != 3 || values[0] != values[1] || values[1] != values[2] {
						t.Errorf("version %d is in parts", c.Version)
					}
					if err := db.ViewContext(ctx, brock.TxnOptions{ReadAt: c.Version}, func(*brock.Txn) error { return nil }); err != nil {
						t.Errorf("version %d is not visible: %v", c.Version, err)
					}
				} else if seen == 0 {
					close(ready)
				}
				if seen == writers*commits {
					return
				}
			}
		})
		<-ready
	}
	for n := range writers {
		all.Go(func() {
			for i := range commits {
				err := db.UpdateContext(ctx, brock.TxnOptions{Update: true, Durability: brock.Durability(1 + i%2)}, func(txn *brock.Txn) error {
					v := bytes.Repeat(fmt.Appendf(nil, "%d.%d ", n, i), 1+i%100)
					return errors.Join(txn.Set(fmt.Appendf(nil, "%d", n), v), txn.Set(fmt.Appendf(nil, "%d second", n), v), txn.Set(fmt.Appendf(nil, "%d third %d", n, i), v))
				})
				if err == nil && i%50 == 49 {
					err = errors.Join(db.Flush(ctx), db.Sync(ctx))
				}
				if err != nil {
					t.Error(err)
				}
			}
			if err := db.Sync(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestWatchEnds: a Watch that waits ends with its context, and with its store.
func TestWatchEnds(t *testing.T) {
	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := true
	var last error
	for c, err := range db.Watch(ctx, brock.WatchOptions{}) {
		if last = err; first && (err != nil || !c.Caught || c.Version != 0) {
			t.Errorf("first %+v, %v", c, err)
		}
		first = false
		time.AfterFunc(10*time.Millisecond, cancel)
	}
	assert.Error(t, "after the context", last, context.Canceled)
	var closed sync.WaitGroup
	for _, err := range db.Watch(t.Context(), brock.WatchOptions{}) {
		if last = err; err == nil {
			closed.Go(func() { assert.OK(t, db.Close()) })
		}
	}
	closed.Wait()
	assert.Error(t, "after Close", last, brock.ErrClosed)
	refused(t, "of a closed store", db, brock.WatchOptions{}, brock.ErrClosed)
	refused(t, "of no store", new(brock.DB), brock.WatchOptions{}, brock.ErrClosed)
}

// TestMisuse: what can't be is refused.
func TestMisuse(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	other := storetest.Open(t, brock.Options{})
	rep := newReplica()
	storetest.Set(t, db, "k=v")
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	refused(t, "Snapshot and After", db, brock.WatchOptions{Snapshot: true, After: rep.at}, brock.ErrInvalid)
	refused(t, "Progress", db, brock.WatchOptions{Progress: -1}, brock.ErrInvalid)
	refused(t, "a keyspace of another store", db, brock.WatchOptions{Keyspaces: []*brock.Keyspace{storetest.OpenKeyspace(t, other, "x")}}, brock.ErrInvalid)
	refused(t, "a position of another store", other, brock.WatchOptions{After: rep.at}, brock.ErrVersionGone)
	for _, text := range []string{"", "1", "1-", "-1-0000000000000001", "1-1", "1-000000000000000G", "01-0000000000000001", "1-0000000000000001 ", "99999999999999999999-0000000000000001"} {
		if p, err := brock.ParsePosition(text); !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("%q is %v, %v", text, p, err)
		}
	}
	storetest.Set(t, db, "k=w")
	var kept *brock.Change
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: rep.at, KeysOnly: true}) {
		assert.OK(t, err)
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			assert.Error(t, "value with KeysOnly", assert.ErrorOf(ch.Value()), brock.ErrInvalid)
		}
		break
	}
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: rep.at}) {
		assert.OK(t, err)
		if kept != nil {
			assert.Error(t, "value behind its commit", assert.ErrorOf(kept.Value()), brock.ErrInvalid)
			break
		}
		for ch := range c.Changes() {
			kept = ch
		}
		storetest.Set(t, db, "k=x")
	}
	assert.Error(t, "value behind the loop", assert.ErrorOf(kept.Value()), brock.ErrInvalid)
	var nilContext context.Context
	for _, err := range db.Watch(nilContext, brock.WatchOptions{}) {
		assert.Error(t, "nil context", err, brock.ErrInvalid)
	}
}

// TestIdleConsumers: ten thousand Watches that wait hold no file and have no timer; each commit wakes
// them all.
func TestIdleConsumers(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "k=0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	var ready, all sync.WaitGroup
	ready.Add(n)
	for range n {
		all.Go(func() {
			first := true
			for c, err := range db.Watch(ctx, brock.WatchOptions{KeysOnly: true}) {
				if err != nil {
					t.Error(err)
				}
				if first {
					first = false
					ready.Done()
				}
				if err != nil || c.Version >= 3 {
					return
				}
			}
		})
	}
	ready.Wait()
	if bytes := (heap() - before) / n; bytes > 8<<10 {
		t.Errorf("each takes %d bytes of heap", bytes)
	}
	used := process.ReadProcessorTime()
	time.Sleep(300 * time.Millisecond)
	if used = process.ReadProcessorTime() - used; used > 100*time.Millisecond {
		t.Errorf("in 300 ms without a commit they take %v of a processor", used)
	}
	storetest.Set(t, db, "k=1")
	storetest.Set(t, db, "k=2")
	all.Wait()
}

// TestFullDiskDropsHistory: history is the first to go when there is no disk space.
func TestFullDiskDropsHistory(t *testing.T) {
	o := options(vfs.NewMem())
	o.KeyspaceDefaults, o.DiskLimit = brock.KeyspaceOptions{}, 6<<20
	db := storetest.Open(t, o)
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	for i := range 1000 {
		err := brock.ErrNoSpace
		for errors.Is(err, brock.ErrNoSpace) { // on a busy machine the files may go later than a set waits
			err = db.Set(fmt.Appendf(nil, "key %d", i%10), storetest.RandomBytes(i, 20_000))
		}
		assert.OK(t, err)
	}
	refused(t, "the first position", db, brock.WatchOptions{After: rep.at}, brock.ErrVersionGone)
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
}

// TestKeyRotation: a new data key leaves the history readable; what a rewriting must not leave under
// an old key goes, and the feed goes on.
func TestKeyRotation(t *testing.T) {
	r := draw.Rand(t)
	mem := vfs.NewMem()
	o := options(mem)
	o.Keys = storetest.MasterKey(1)
	db := storetest.Open(t, o)
	w := &writer{t: t, r: r, db: db, expires: time.Now().Add(time.Hour), large: true}
	rep, late := newReplica(), newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	for range 4 {
		for range 40 {
			w.step()
		}
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	}
	rep.pull(t, db, brock.WatchOptions{}, -1, nil)
	assert.SameText(t, "over rotations", rep.text(), contents(t, db, 0, true))
	late.pull(t, db, brock.WatchOptions{Snapshot: true}, 1, nil)
	for range 40 {
		w.step()
	}
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	assert.Equal(t, "bytes under old keys", db.Metrics().Tree.OldKeyBytes, 0)
	refused(t, "what was under an old key", db, brock.WatchOptions{After: rep.at}, brock.ErrVersionGone)
	rep = newReplica()
	rep.pull(t, db, brock.WatchOptions{Snapshot: true}, -1, nil)
	for range 40 {
		w.step()
	}
	assert.OK(t, db.Sync(t.Context()))
	rep.pull(t, db, brock.WatchOptions{}, -1, nil)
	assert.SameText(t, "over a rewriting", rep.text(), contents(t, db, 0, true))
}

// TestDamagedHistory: a flipped bit in a file that only the feed needs is a CorruptionError of Watch and
// of Verify, and a missing file ErrVersionGone; nothing else of the store is concerned.
func TestDamagedHistory(t *testing.T) {
	for _, missing := range []bool{false, true} {
		mem := vfs.NewMem()
		o := options(mem)
		o.KeyspaceDefaults = brock.KeyspaceOptions{}
		db := assert.Must(brock.Open(o))
		rep := newReplica()
		rep.pull(t, db, brock.WatchOptions{}, 1, nil)
		for i := range 40 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i%3), bytes.Repeat([]byte("a value"), 2000)))
		}
		assert.OK(t, db.Flush(t.Context()))
		_, err := db.Reclaim(t.Context())
		assert.OK(t, err)
		want := contents(t, db, 0, true)
		if db.Metrics().Tree.FeedBytes < 500_000 {
			t.Errorf("%d bytes of history", db.Metrics().Tree.FeedBytes)
		}
		assert.OK(t, db.Close())
		names, err := mem.List("db")
		assert.OK(t, err)
		first := ""
		for _, name := range names {
			if strings.HasSuffix(name, ".log") && first == "" {
				first = "db/" + name
			}
		}
		if missing {
			assert.OK(t, mem.Remove(first))
		} else {
			storetest.FlipBit(t, mem, first, 8*9000)
		}
		db = storetest.OpenExisting(t, o)
		assert.SameText(t, "contents", contents(t, db, 0, true), want)
		assert.Error(t, "Verify", db.Verify(t.Context(), nil), brock.ErrCorrupt)
		kind := brock.ErrCorrupt
		if missing {
			kind = brock.ErrVersionGone
		}
		refusedLater(t, db, rep.at, kind)
	}
}

// refusedLater wants a Watch to end with an error within its history.
func refusedLater(t *testing.T, db *brock.DB, at brock.Position, want error) {
	t.Helper()
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: at}) {
		if err != nil {
			assert.Error(t, "history", err, want)
			return
		}
		if c.Caught {
			t.Fatalf("nothing is missing up to version %d", c.Version)
		}
	}
}
