// Package snapshot tests DB.Snapshot, DB.VersionAt, and what a transaction can take back.
package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// taken is a snapshot and what it read at first.
type taken struct {
	*brock.Snapshot
	keyspaces []*brock.Keyspace
	want      string
}

func take(t testing.TB, db *brock.DB) *taken {
	t.Helper()
	s, err := db.Snapshot()
	assert.OK(t, err)
	k := &taken{Snapshot: s, keyspaces: slices.Collect(db.Keyspaces())}
	// A keyspace that was made since the snapshot is not in its copies.
	k.want = k.read(t)
	return k
}

func (k *taken) read(t testing.TB) (shown string) {
	t.Helper()
	assert.OK(t, k.View(t.Context(), func(txn *brock.Txn) error {
		assert.Equal(t, "version", txn.ReadVersion(), k.Version())
		shown = storetest.ShowVersions(t, txn, k.keyspaces)
		return nil
	}))
	return shown
}

// compareCopies makes a checkpoint and a backup of a snapshot, and compares them with what it reads.
func (k *taken) compareCopies(t testing.TB, o, to brock.Options) {
	t.Helper()
	assert.SameText(t, "snapshot", k.read(t), k.want)
	assert.OK(t, k.Checkpoint(t.Context(), o.Dir))
	o.ValueDir = ""
	compare := func(what string, o brock.Options) {
		t.Helper()
		o.Mode = brock.ReadOnly // a writer may drop history that no Retention keeps, before it is read
		db := open(t, o)
		assert.Equal(t, what+"'s version", db.Version(), k.Version())
		assert.SameText(t, what, storetest.ShowRetained(t, db, 0), k.want)
		assert.OK(t, db.Close())
		o.Mode = brock.ReadWrite
		db = open(t, o)
		defer func() { assert.OK(t, db.Close()) }()
		assert.OK(t, db.Verify(t.Context(), nil))
		if what == "restored" { // it has the same files
			return
		}
		contents := storetest.ShowContents(t, db)
		assert.OK(t, db.Compact(t.Context()))
		assert.SameText(t, what+" after a compaction", storetest.ShowContents(t, db), contents)
		assert.OK(t, db.Set([]byte("another"), []byte("past")))
		assert.Equal(t, what+"'s next version", db.Version(), k.Version()+1)
	}
	compare("checkpoint", o)
	var stream bytes.Buffer
	info, err := k.Backup(t.Context(), &stream, brock.BackupOptions{Compress: true})
	assert.OK(t, err)
	assert.Equal(t, "version of the backup", info.Version, k.Version())
	assert.Equal(t, "time of the backup", info.Time.UnixMilli(), k.Time().UnixMilli())
	_, err = brock.Restore(t.Context(), &stream, to)
	assert.OK(t, err)
	compare("restored", to)
}

func open(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.MustExist = true
	db, err := brock.Open(o)
	assert.OK(t, err)
	return db
}

// TestCopiesOfSnapshots takes snapshots at random moments beside a busy writer, which also spills,
// flushes, compacts, collects, and drops keyspaces. Copies of each are made much later, and have what
// the snapshot reads: no commit more, none less.
func TestCopiesOfSnapshots(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "values"} {
		for name, options := range map[string]func(storetest.Place, string, string) brock.Options{
			"plain": storetest.Place.RetainingOptions, "encrypted": storetest.Place.KeyedOptions, "forgetful": storetest.Place.TinyOptions,
		} {
			if name == "forgetful" && values != "" {
				continue
			}
			t.Run(name+",ValueDir="+values, func(t *testing.T) {
				t.Parallel()
				storetest.OnEach(t, func(t *testing.T, p storetest.Place) { copySnapshots(t, p, options, values) })
			})
		}
	}
}

func copySnapshots(t *testing.T, p storetest.Place, options func(storetest.Place, string, string) brock.Options, values string) {
	r := draw.Rand(t)
	db, err := brock.Open(options(p, "store", values))
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	w := storetest.NewWorkload(t, db, r.Uint64())
	w.Write(t, 100)
	ctx, end := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	var written atomic.Bool
	writing.Go(func() {
		defer written.Store(true)
		for i := 0; ctx.Err() == nil && i < 400; i++ { // all versions stay, and are compared

			if err := churn(ctx, w, i); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	defer writing.Wait()
	defer end()
	var open []*taken
	for round := range 4 {
		for until := db.Version() + uint64(r.IntN(60)); db.Version() < until && !written.Load(); {
			runtime.Gosched()
		}
		open = append(open, take(t, db))
		if i := r.IntN(len(open)); r.IntN(2) == 0 {
			k := open[i]
			k.compareCopies(t, options(p, fmt.Sprint("copy ", round), ""), options(p, fmt.Sprint("restored ", round), storetest.NameOtherDir(values, round)))
			k.Close()
			open = slices.Delete(open, i, i+1)
		}
	}
	end()
	writing.Wait()
	for i, k := range open {
		k.compareCopies(t, options(p, fmt.Sprint("late copy ", i), ""), options(p, fmt.Sprint("late ", i), storetest.NameOtherDir(values, 100+i)))
		k.Close()
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	if storetest.IsPinned(db) {
		t.Error("a version is still pinned")
	}
}

// churn is the i-th step of a busy writer.
func churn(ctx context.Context, w *storetest.Workload, i int) error {
	switch {
	case i%97 == 96:
		_, err := w.DB.Reclaim(ctx)
		return err
	case i%61 == 60:
		return w.DB.Compact(ctx)
	case i%41 == 40:
		return w.DB.Flush(ctx)
	case i%29 == 28: // a transaction that bypasses the journal
		return w.DB.UpdateContext(ctx, brock.TxnOptions{MaxMemory: 2 << 10}, func(txn *brock.Txn) error {
			for j := range 30 {
				if err := txn.Set(fmt.Appendf(nil, "key %03d", 7*j), storetest.RandomBytes(i+j, 100*j)); err != nil {
					return err
				}
			}
			return txn.DeleteRange([]byte("key 05"), []byte("key 06"))
		})
	case i%37 == 36: // values that replace each other in one commit
		b := w.DB.NewBatch()
		for j := range 20 {
			if err := b.Set(fmt.Appendf(nil, "key %03d", j%3), storetest.RandomBytes(i+j, 2000)); err != nil {
				return err
			}
		}
		_, err := b.Commit(ctx, brock.Buffered)
		return err
	case i%53 == 50:
		ks, err := w.DB.Keyspace("short-lived")
		if err == nil {
			err = ks.Set([]byte("a"), storetest.RandomBytes(i, 3000))
		}
		return err
	case i%53 == 52:
		ks, err := w.DB.Keyspace("short-lived")
		if err == nil {
			err = ks.Drop(ctx)
		}
		return err
	}
	return w.WriteOnce(ctx)
}

// TestSnapshotIsReadTogether has 8 goroutines read one snapshot, while keyspaces are dropped and all
// else is written again, compacted and collected.
func TestSnapshotIsReadTogether(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	db := storetest.Open(t, p.TinyOptions("store", ""))
	w := storetest.NewWorkload(t, db, draw.Seed(t))
	w.Write(t, 300)
	gone := storetest.OpenKeyspace(t, db, "gone")
	assert.OK(t, gone.Set([]byte("a"), storetest.RandomBytes(1, 5000)))
	k := take(t, db)
	defer k.Close()
	if !strings.Contains(k.want, "[gone]\n\"a\"") {
		t.Fatal("the snapshot lacks a keyspace")
	}
	later := storetest.OpenKeyspace(t, db, "later")
	assert.OK(t, later.Set([]byte("a"), nil))
	var done atomic.Bool
	var reading sync.WaitGroup
	for range 8 {
		reading.Go(func() {
			for !done.Load() {
				assert.SameText(t, "snapshot", k.read(t), k.want)
				txn, err := k.Begin(t.Context())
				assert.OK(t, err)
				_, err = txn.In(later).Get([]byte("a"))
				assert.Error(t, "a keyspace that came later", err, brock.ErrKeyNotFound)
				assert.Error(t, "write", txn.Set([]byte("a"), nil), brock.ErrReadOnly)
				txn.Discard()
			}
		})
	}
	assert.OK(t, gone.Drop(t.Context()))
	for i := range 300 {
		assert.OK(t, churn(t.Context(), w, i))
	}
	assert.OK(t, w.Keyspace.Drop(t.Context()))
	assert.OK(t, db.DropAll(t.Context()))
	assert.OK(t, db.Compact(t.Context()))
	done.Store(true)
	reading.Wait()
	assert.SameText(t, "snapshot", k.read(t), k.want)
	assert.Equal(t, "pinned version", uint64(db.Metrics().Tree.PinnedVersion), k.Version())
	if by := db.Metrics().Tree.PinnedBy; !strings.Contains(by, "snapshot.take (") {
		t.Errorf("pinned by %q", by)
	}
}

// TestIncrementsOfSnapshots makes backups of snapshots and of the store in turn, each an increment of
// the last. One of an older snapshot is refused.
func TestIncrementsOfSnapshots(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		db := storetest.Open(t, p.RetainingOptions("store", "values"))
		w := storetest.NewWorkload(t, db, draw.Seed(t))
		var streams [][]byte
		var last *brock.BackupInfo
		first := take(t, db)
		defer first.Close()
		for round := range 6 {
			w.Write(t, 100)
			k := take(t, db)
			w.Write(t, 100)
			from, want := k.Backup, k.want
			if round%3 == 2 {
				from, want = db.Backup, storetest.ShowRetained(t, db, 0)
			}
			var out bytes.Buffer
			info, err := from(t.Context(), &out, brock.BackupOptions{Since: last})
			assert.OK(t, err)
			k.Close()
			last, streams = info, append(streams, out.Bytes())
			storetest.RestoreBackups(t, p.RetainingOptions(fmt.Sprint("restored ", round), ""), want, streams...)
		}
		_, err := first.Backup(t.Context(), io.Discard, brock.BackupOptions{Since: last})
		assert.Error(t, "increment of an older snapshot", err, brock.ErrInvalid)
	})
}

// TestSnapshotsOfReaders copies snapshots of a store that is followed, while its writer goes on, and
// of one that is ReadOnly.
func TestSnapshotsOfReaders(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(storetest.Place, string, string) brock.Options{"plain": storetest.Place.RetainingOptions, "encrypted": storetest.Place.KeyedOptions} {
		t.Run(name, func(t *testing.T) {
			storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
				o := options(p, "store", "values")
				db, err := brock.Open(o)
				assert.OK(t, err)
				w := storetest.NewWorkload(t, db, draw.Seed(t))
				w.Write(t, 100)
				f := storetest.OpenFollower(t, o)
				var open []*taken
				for range 3 {
					w.Write(t, 70)
					assert.OK(t, db.Sync(t.Context()))
					open = append(open, take(t, f))
					assert.Equal(t, "version", open[len(open)-1].Version(), db.Version())
					for i := range 62 {
						assert.OK(t, churn(t.Context(), w, i))
					}
					assert.OK(t, db.Sync(t.Context()))
					assert.Must(f.Refresh(t.Context()))
				}
				assert.OK(t, db.Close())
				o.Mode = brock.ReadOnly
				open = append(open, take(t, storetest.OpenExisting(t, o)))
				for i, k := range open {
					k.compareCopies(t, options(p, fmt.Sprint("copy ", i), ""), options(p, fmt.Sprint("restored ", i), "v"+fmt.Sprint(i)))
					k.Close()
				}
			})
		})
	}
}

// TestSnapshotAfterKeyChange: copies of a snapshot that is older than a key work while the key before
// is there. After that they are refused, and the snapshot is read.
func TestSnapshotAfterKeyChange(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	db := storetest.Open(t, p.KeyedOptions("store", ""))
	storetest.NewWorkload(t, db, draw.Seed(t)).Write(t, 200)
	k := take(t, db)
	defer k.Close()
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	k.compareCopies(t, p.KeyedOptions("copy", ""), p.KeyedOptions("restored", ""))
	var waits error
	assert.Must(k.Backup(t.Context(), io.Discard, brock.BackupOptions{Progress: func(brock.BackupProgress) {
		if waits == nil {
			ctx, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer end()
			waits = db.RotateKey(ctx, brock.RotateOptions{})
		}
	}}))
	assert.Error(t, "RotateKey during a copy", waits, context.DeadlineExceeded)
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	assert.SameText(t, "snapshot", k.read(t), k.want)
	err := k.Checkpoint(t.Context(), p.Join("late"))
	assert.Error(t, "checkpoint", err, brock.ErrKey)
	if !strings.Contains(err.Error(), "make another") {
		t.Error(err)
	}
	if _, err := p.FS.Stat(p.Join("late")); err == nil {
		t.Error("there is a directory")
	}
}

// TestCopiesHaveNothingLater: no byte of what came after the snapshot is in its copies, not even behind
// the end of a file. It is so in a store that is in memory, too.
func TestCopiesHaveNothingLater(t *testing.T) {
	t.Parallel()
	for _, inMemory := range []bool{false, true} {
		mem := vfs.NewMem()
		db := storetest.Open(t, brock.Options{Dir: "/store", FS: mem, InMemory: inMemory})
		before, after := storetest.RandomBytes(1, 5000), storetest.RandomBytes(2, 5000)
		assert.OK(t, db.Set([]byte("a"), before))
		k := take(t, db)
		assert.OK(t, db.Set([]byte("b"), after))
		assert.OK(t, k.Checkpoint(t.Context(), "/copy"))
		var stream bytes.Buffer
		assert.Must(k.Backup(t.Context(), &stream, brock.BackupOptions{}))
		k.Close()
		all := stream.Bytes()
		for _, name := range assert.Must(mem.List("/copy")) {
			all = append(all, storetest.ReadFile(t, mem, "/copy/"+name)...)
		}
		assert.Equal(t, "copies of what was before", bytes.Count(all, before[:1000]), 2)
		assert.Equal(t, "copies of what came later", bytes.Count(all, after[:1000]), 0)
		made := open(t, brock.Options{Dir: "/copy", FS: mem})
		assert.SameText(t, "checkpoint", storetest.ShowRetained(t, made, 0), k.want)
		assert.OK(t, made.Close())
	}
}

// TestCheckpointOfUnsyncedSegments: a checkpoint is durable when it returns, also if its values are in
// sealed segments of the journal that nothing has synced.
func TestCheckpointOfUnsyncedSegments(t *testing.T) {
	t.Parallel()
	mem, synced := vfs.NewMem(), make(chan struct{})
	p := storetest.Place{Dir: "/", FS: faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		// Background work syncs sealed segments soon: not yet.
		if op.Kind&faultfs.Syncs != 0 && strings.HasPrefix(op.Path, "/store/") && strings.HasSuffix(op.Path, ".log") {
			<-synced
		}
	}})}
	db := storetest.Open(t, p.TinyOptions("store", ""))
	defer close(synced)
	for i := range 10 { // one memtable, several segments
		assert.OK(t, db.Set(fmt.Append(nil, i), storetest.RandomBytes(i, 30_000)))
	}
	k := take(t, db)
	defer k.Close()
	assert.OK(t, k.Checkpoint(t.Context(), "/copy"))
	lost := storetest.Place{FS: mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost}), Dir: "/"}
	made := open(t, lost.TinyOptions("copy", ""))
	assert.SameText(t, "checkpoint", storetest.ShowRetained(t, made, 0), k.want)
	assert.OK(t, made.Verify(t.Context(), nil))
	assert.OK(t, made.Close())
}

// TestClosedSnapshots: what ends a Snapshot, and what goes on.
func TestClosedSnapshots(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	db, err := brock.Open(p.TinyOptions("store", ""))
	assert.OK(t, err)
	storetest.NewWorkload(t, db, draw.Seed(t)).Write(t, 50)
	refused := func(s *brock.Snapshot, want error) {
		t.Helper()
		assert.Error(t, "View", s.View(t.Context(), func(*brock.Txn) error { return nil }), want)
		_, err := s.Begin(t.Context())
		assert.Error(t, "Begin", err, want)
		_, err = s.Backup(t.Context(), io.Discard, brock.BackupOptions{})
		assert.Error(t, "Backup", err, want)
		assert.Error(t, "Checkpoint", s.Checkpoint(t.Context(), p.Join("copy")), want)
	}
	k, other := take(t, db), take(t, db)
	txn, err := k.Begin(t.Context())
	assert.OK(t, err)
	k.Close()
	k.Close()
	refused(k.Snapshot, brock.ErrTxnDone)
	assert.Equal(t, "version", k.Version(), other.Version())
	assert.OK(t, db.DropAll(t.Context()))
	assert.SameText(t, "its transaction", storetest.ShowVersions(t, txn, k.keyspaces), k.want)
	txn.Discard()
	ctx, end := context.WithCancel(t.Context())
	end()
	_, err = other.Backup(ctx, io.Discard, brock.BackupOptions{})
	assert.Error(t, "Backup", err, context.Canceled)
	assert.Error(t, "View of nothing", other.View(t.Context(), nil), brock.ErrInvalid)
	assert.OK(t, db.Close())
	refused(other.Snapshot, brock.ErrClosed)
	other.Close()
	refused(nil, brock.ErrClosed)
	refused(new(brock.Snapshot), brock.ErrClosed)
	for _, s := range []*brock.Snapshot{nil, new(brock.Snapshot)} {
		s.Close()
		assert.Equal(t, "version", s.Version(), 0)
		s.Time()
	}
	_, err = db.Snapshot()
	assert.Error(t, "Snapshot", err, brock.ErrClosed)
	_, err = new(brock.DB).Snapshot()
	assert.Error(t, "Snapshot", err, brock.ErrClosed)
}

// TestSnapshotOfStoppedStore: it is read, and not copied.
func TestSnapshotOfStoppedStore(t *testing.T) {
	t.Parallel()
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: fs})
	assert.OK(t, err)
	defer db.Close()
	storetest.Set(t, db, "a=1")
	fs.Inject(faultfs.Fault{Kinds: faultfs.Syncs, Times: faultfs.Always})
	assert.Error(t, "Set", db.Set([]byte("b"), nil), brock.ErrStopped)
	s, err := db.Snapshot()
	assert.OK(t, err)
	defer s.Close()
	assert.OK(t, s.View(t.Context(), func(txn *brock.Txn) error {
		assert.Equal(t, "all", storetest.ShowItems(txn.All()), "a=1")
		return nil
	}))
	assert.Error(t, "Checkpoint", s.Checkpoint(t.Context(), "/copy"), brock.ErrStopped)
}

// TestLeakedSnapshot: one that nobody can close any more is told of, and keeps nothing.
func TestLeakedSnapshot(t *testing.T) {
	if !process.RunInChild(t) {
		return
	}
	told := make(chan brock.LeakInfo, 10)
	db := storetest.Open(t, brock.Options{Events: brock.Events{Leak: func(l brock.LeakInfo) { told <- l }}})
	storetest.Set(t, db, "a=1")
	take(t, db).Close()
	func() {
		assert.OK(t, assert.Must(db.Snapshot()).View(t.Context(), func(*brock.Txn) error { return nil }))
	}()
	process.CollectGarbage(t, func() bool { return db.Metrics().Leaked == 1 })
	l := <-told
	if l.Version != 1 || !strings.Contains(l.Begun, "TestLeakedSnapshot") || !strings.Contains(l.Begun, "snapshot_test.go:") {
		t.Errorf("%+v", l)
	}
	if storetest.IsPinned(db) {
		t.Error("a version is still pinned")
	}
}

// TestCrashInCheckpointOfSnapshot ends the process at each step of a checkpoint: what is left in its
// directory is no store, or the whole snapshot, and the source has lost nothing.
func TestCrashInCheckpointOfSnapshot(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(draw.Seed(t), 1))
	storetest.AtEachStep(t, 3, func(t *testing.T, at int) (done bool) {
		mem := vfs.NewMem()
		var crashed *vfs.Mem
		var armed atomic.Bool
		var mu sync.Mutex // guards n and crashed: the store works in the background, too
		n := 0
		fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
			if armed.Load() && op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == at {
					crashed = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: r.Uint64()})
				}
			}
		}})
		p := storetest.Place{FS: fs, Dir: "/"}
		db, err := brock.Open(p.RetainingOptions("store", ""))
		assert.OK(t, err)
		defer db.Close()
		w := storetest.NewWorkload(t, db, 9)
		w.Write(t, 40)
		assert.OK(t, db.Flush(t.Context()))
		w.Write(t, 20)
		k := take(t, db)
		defer k.Close()
		w.Write(t, 10)
		assert.OK(t, db.Sync(t.Context()))
		last := storetest.ShowRetained(t, db, 0)
		armed.Store(true)
		assert.OK(t, k.Checkpoint(t.Context(), "/copy"))
		armed.Store(false)
		mu.Lock()
		defer mu.Unlock()
		if crashed == nil {
			crashed, done = mem.CrashClone(vfs.CrashOptions{}), true
		}
		after := storetest.Place{FS: crashed, Dir: "/"}
		o := after.RetainingOptions("copy", "")
		o.MustExist = true
		made, err := brock.Open(o)
		if err == nil {
			assert.SameText(t, "checkpoint", storetest.ShowRetained(t, made, 0), k.want)
			assert.OK(t, made.Close())
		} else if done {
			t.Error(err)
		}
		source := open(t, after.RetainingOptions("store", ""))
		assert.SameText(t, "source", storetest.ShowRetained(t, source, 0), last)
		assert.OK(t, source.Close())
		return !done
	})
}
