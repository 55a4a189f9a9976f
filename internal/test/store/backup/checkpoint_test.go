package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestCheckpoint makes checkpoints of a store, compares them with it, and then works on
// all of them: they have nothing in common any more.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "values"} {
		t.Run("ValueDir="+values, func(t *testing.T) {
			storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
				db, err := brock.Open(p.RetainingOptions("store", values))
				assert.OK(t, err)
				defer db.Close()
				assert.OK(t, db.Checkpoint(t.Context(), p.Join("empty")))
				stores := map[string]*storetest.Workload{"store": storetest.NewWorkload(t, db, 1)}
				stores["empty"] = storetest.NewWorkload(t, storetest.OpenExisting(t, p.RetainingOptions("empty", "")), 2)
				stores["store"].Write(t, 200)
				for _, name := range []string{"first", "second", "third"} {
					stores["store"].Write(t, 60)
					assert.OK(t, db.Checkpoint(t.Context(), p.Join(name)))
					if name == "second" {
						assert.OK(t, db.Compact(t.Context()))
					}
					made := storetest.OpenExisting(t, p.RetainingOptions(name, ""))
					assert.Equal(t, name+"'s version", made.Version(), db.Version())
					assert.SameText(t, name, storetest.ShowRetained(t, made, 0), storetest.ShowRetained(t, db, 0))
					assert.OK(t, made.Verify(t.Context(), nil))
					stores[name] = storetest.NewWorkload(t, made, 3)
				}
				// A checkpoint of a checkpoint shares files with both.
				assert.OK(t, stores["third"].DB.Checkpoint(t.Context(), p.Join("fourth")))
				stores["fourth"] = storetest.NewWorkload(t, storetest.OpenExisting(t, p.RetainingOptions("fourth", "")), 4)
				for range 2 {
					now := map[string]string{}
					for name, w := range stores {
						w.Write(t, 40)
						assert.OK(t, w.DB.Flush(t.Context()))
						if w.Rand.IntN(2) == 0 {
							assert.OK(t, w.Keyspace.Clear(t.Context()))
						}
						_, err := w.DB.Reclaim(t.Context())
						assert.OK(t, err)
						now[name] = storetest.ShowRetained(t, w.DB, 0)
					}
					for name, w := range stores {
						assert.SameText(t, name+" after work on the others", storetest.ShowRetained(t, w.DB, 0), now[name])
					}
				}
				for name, w := range stores {
					if err := w.DB.Verify(t.Context(), nil); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		})
	}
}

// TestCheckpointSharesOnlyWhatNeverChanges has a store write, compact, collect and
// remove what a closed checkpoint shares with it, and looks at each byte.
func TestCheckpointSharesOnlyWhatNeverChanges(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		o := p.TinyOptions("store", "")
		o.Tuning = brock.Tuning{MemtableSize: 1 << 20, SegmentSize: 6 << 20, RunFileSize: 1 << 20} // journal files are kept
		db, err := brock.Open(o)
		assert.OK(t, err)
		defer db.Close()
		fill := func(round int) {
			for i := range 150 {
				assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), storetest.RandomBytes(round*1000+i, 60_000)))
			}
			assert.OK(t, db.Flush(t.Context()))
		}
		fill(1)
		assert.OK(t, db.Checkpoint(t.Context(), p.Join("copy")))
		files := p.ShowFiles(t, "copy")
		names, err := p.FS.List(p.Join("copy"))
		assert.OK(t, err)
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }) {
			t.Fatalf("no journal file is shared: %v", names)
		}
		for round := 2; round < 8; round++ {
			fill(round)
			assert.OK(t, db.Compact(t.Context())) // so that all is known to be garbage
		}
		_, err = db.Reclaim(t.Context())
		assert.OK(t, err)
		if now := p.ShowFiles(t, "copy"); now != files {
			t.Errorf("from\n%s\nto\n%s", files, now)
		}
		made := storetest.OpenExisting(t, brock.Options{Dir: p.Join("copy"), FS: p.FS})
		assert.OK(t, made.Verify(t.Context(), nil))
		v, err := made.Get([]byte("key 7"))
		assert.OK(t, err)
		if string(v) != string(storetest.RandomBytes(1007, 60_000)) {
			t.Error("the checkpoint has another value")
		}
	})
}

// TestCheckpointBesideWriters makes checkpoints while others write, also transactions
// larger than their memory. Each is the store as of its version.
func TestCheckpointBesideWriters(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	p := storetest.Place{FS: mem, Dir: "/", Rename: mem.Rename}
	db, err := brock.Open(p.RetainingOptions("store", ""))
	assert.OK(t, err)
	defer db.Close()
	seed := draw.Seed(t)
	storetest.NewWorkload(t, db, seed).Write(t, 100)
	small, large := make(chan struct{}), make(chan struct{})
	var writers sync.WaitGroup
	for i := range uint64(3) {
		w := storetest.NewWorkload(t, db, seed+i+1)
		writers.Go(func() {
			for range small {
				if err := w.WriteOnce(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() {
		n := 0
		for range large {
			n++
			err := db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10, Isolation: brock.LastWriterWins}, func(txn *brock.Txn) error {
				for i := range 50 {
					if err := txn.Set(fmt.Appendf(nil, "large %d", i), storetest.RandomBytes(n+i, 2000)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	count := 12
	if testing.Short() {
		count = 5
	}
	for i := range count {
		before := db.Version()
		dir := fmt.Sprintf("copy %d", i)
		done := make(chan error, 1)
		go func() { done <- db.Checkpoint(t.Context(), p.Join(dir)) }()
		// All history is compared, so there is an end to the writes.
		for ended, n := false, 0; !ended; n++ {
			to := small
			switch {
			case n > 300:
				to = nil
			case n%40 == 10:
				to = large
			}
			select {
			case to <- struct{}{}:
			case err := <-done:
				assert.OK(t, err)
				ended = true
			}
		}
		made := storetest.OpenExisting(t, p.RetainingOptions(dir, ""))
		at := made.Version()
		if at < before || at > db.Version() {
			t.Errorf("version %d, not between %d and %d", at, before, db.Version())
		}
		assert.SameText(t, fmt.Sprintf("seed %d: %s, version %d", seed, dir, at), storetest.ShowRetained(t, made, 0), storetest.ShowRetained(t, db, at))
		assert.OK(t, made.Verify(t.Context(), nil))
	}
	close(small)
	close(large)
	writers.Wait()
}

// TestCheckpointBesideDrops holds up the flush that a checkpoint waits for. Meanwhile a
// keyspace is made, one gets other options, and perhaps one is dropped: then the
// checkpoint has what was committed before the drop, else nothing of all that.
func TestCheckpointBesideDrops(t *testing.T) {
	t.Parallel()
	for _, drop := range []bool{false, true} {
		mem := vfs.NewMem()
		reached, goOn := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		faulty := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
			if op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".run") && held.CompareAndSwap(true, false) {
				close(reached)
				<-goOn
			}
		}})
		db, err := brock.Open(storetest.Place{FS: faulty, Dir: "/"}.TinyOptions("store", ""))
		assert.OK(t, err)
		fruit, nuts := storetest.OpenKeyspace(t, db, "fruit"), storetest.OpenKeyspace(t, db, "nuts")
		storetest.Set(t, db, "commit=before")
		assert.OK(t, fruit.Set([]byte("apple"), []byte("red")))
		assert.OK(t, nuts.Set([]byte("hazel"), []byte("brown")))
		at := db.Version()
		held.Store(true)
		done := make(chan error)
		go func() { done <- db.Checkpoint(t.Context(), "/copy") }()
		<-reached
		storetest.Set(t, db, "commit=later")
		assert.OK(t, storetest.OpenKeyspace(t, db, "later").Set([]byte("a"), []byte("1")))
		assert.OK(t, nuts.SetOptions(brock.KeyspaceOptions{TTL: time.Hour}))
		want := "commit=before; fruit: apple=red; nuts: hazel=brown"
		if drop {
			assert.OK(t, fruit.Drop(t.Context()))
			at, want = db.Version(), "commit=later; later: a=1; nuts: hazel=brown"
		}
		close(goOn)
		assert.OK(t, <-done)
		assert.OK(t, db.Close())
		made := storetest.OpenExisting(t, storetest.Place{FS: mem, Dir: "/"}.TinyOptions("copy", ""))
		assert.Equal(t, "content", storetest.ShowContents(t, made), want)
		assert.Equal(t, "version", made.Version(), at)
		assert.Equal(t, "a keyspace has the options of later", storetest.OpenKeyspace(t, made, "nuts").Options().TTL != 0, drop)
		assert.OK(t, storetest.OpenKeyspace(t, made, "new").Set([]byte("a"), []byte("2")))
		assert.OK(t, made.Verify(t.Context(), nil))
	}
}

// TestCheckpointOverDisks makes a checkpoint where files can't be linked, or not even
// cloned, of a store in memory, and of one that has rotted.
func TestCheckpointOverDisks(t *testing.T) {
	t.Parallel()
	for _, refused := range []faultfs.Kind{faultfs.Link, faultfs.Link | faultfs.Clone} {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		p := storetest.Place{FS: faulty, Dir: "/", Rename: mem.Rename}
		db, err := brock.Open(p.RetainingOptions("store", "values"))
		assert.OK(t, err)
		w := storetest.NewWorkload(t, db, 1)
		w.Write(t, 400)
		_, err = db.Reclaim(t.Context()) // for a forwarding table
		assert.OK(t, err)
		w.Write(t, 100)
		faulty.Inject(faultfs.Fault{Kinds: refused, Times: faultfs.Always, Err: errors.ErrUnsupported})
		assert.OK(t, db.Checkpoint(t.Context(), "/copy"))
		crashed := mem.CrashClone(vfs.CrashOptions{}) // all is synced
		want := storetest.ShowRetained(t, db, 0)
		_, err = db.Reclaim(t.Context())
		assert.OK(t, err)
		for _, fsys := range []vfs.FS{mem, crashed} {
			made := storetest.OpenExisting(t, storetest.Place{FS: fsys, Dir: "/"}.RetainingOptions("copy", ""))
			assert.SameText(t, refused.String()+" refused", storetest.ShowRetained(t, made, 0), want)
			assert.OK(t, made.Verify(t.Context(), nil))
		}
		assert.OK(t, db.Close())

		// One flipped bit, wherever it is, is not copied.
		for _, kind := range []string{".run", ".val"} {
			o := p.RetainingOptions("store", "values")
			o.Maintenance.ScrubEvery = -1
			db, err := brock.Open(o)
			assert.OK(t, err)
			for _, dir := range []string{"/store", "/values"} {
				names, err := mem.List(dir)
				assert.OK(t, err)
				for _, name := range names {
					if strings.HasSuffix(name, kind) {
						flipBit(t, mem, filepath.Join(dir, name), 5000)
						err := db.Checkpoint(t.Context(), "/rotten")
						assert.Error(t, name+" has rotted", err, brock.ErrCorrupt)
						_, err = mem.Stat("/rotten")
						assert.Error(t, "what is left", err, fs.ErrNotExist)
						flipBit(t, mem, filepath.Join(dir, name), 5000)
					}
				}
			}
			assert.OK(t, db.Close())
		}
	}
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	storetest.NewWorkload(t, db, 1).Write(t, 200)
	p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir(), Rename: os.Rename}
	assert.OK(t, db.Checkpoint(t.Context(), p.Join("copy")))
	made := storetest.OpenExisting(t, p.RetainingOptions("copy", ""))
	assert.SameText(t, "of a store in memory", storetest.ShowRetained(t, made, 0), storetest.ShowRetained(t, db, 0))
	assert.OK(t, made.Verify(t.Context(), nil))
}

func flipBit(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	assert.OK(t, err)
	size, err := f.Size()
	assert.OK(t, err)
	at %= size
	p := make([]byte, 1)
	_, err = f.ReadAt(p, at)
	assert.OK(t, err)
	p[0] ^= 4
	_, err = f.WriteAt(p, at)
	assert.OK(t, err)
	assert.OK(t, f.Close())
}

// TestCheckpointRefuses makes checkpoints where none can be made.
func TestCheckpointRefuses(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		db, err := brock.Open(p.TinyOptions("store", "values"))
		assert.OK(t, err)
		storetest.Set(t, db, "a=1")
		assert.OK(t, p.FS.MkdirAll(p.Join("there")))
		storetest.WriteFile(t, p.FS, p.Join("file"), "x")
		before := p.ShowFiles(t, "there")
		for _, name := range []string{"there", "file", "store", "values"} {
			assert.Error(t, name, db.Checkpoint(t.Context(), p.Join(name)), brock.ErrExist)
		}
		assert.Equal(t, "the directory", p.ShowFiles(t, "there"), before)
		assert.Error(t, "no name", db.Checkpoint(t.Context(), ""), brock.ErrExist)
		ended, end := context.WithCancel(t.Context())
		end()
		assert.Error(t, "an ended context", db.Checkpoint(ended, p.Join("new")), context.Canceled)
		_, err = p.FS.Stat(p.Join("new"))
		assert.Error(t, "what it leaves", err, fs.ErrNotExist)

		// The copy has no ValueDir, and takes none of another store.
		assert.OK(t, db.Checkpoint(t.Context(), p.Join("deep/er/copy")))
		p.CheckRefused(t, "the copy with the source's ValueDir", p.TinyOptions("deep/er/copy", "values"), brock.ErrInvalid, "values", "deep/er/copy")
		assert.OK(t, db.Close())
		p.CheckRefused(t, "the source with the copy as its ValueDir", p.TinyOptions("store", "deep/er/copy"), brock.ErrForeign, "store", "deep/er/copy")
		assert.Error(t, "a closed store", db.Checkpoint(t.Context(), p.Join("new")), brock.ErrClosed)
	})
}

// checkpointed is a store in memory with all kinds of files, closed; its history; and
// options to open it.
func checkpointed(t *testing.T) (mem *vfs.Mem, want string, options func(vfs.FS, string) brock.Options) {
	mem = vfs.NewMem()
	options = func(fsys vfs.FS, name string) brock.Options {
		return storetest.Place{FS: fsys, Dir: "/"}.RetainingOptions(name, "")
	}
	db, err := brock.Open(options(mem, "store"))
	assert.OK(t, err)
	w := storetest.NewWorkload(t, db, 1)
	w.Write(t, 150)
	_, err = db.Reclaim(t.Context())
	assert.OK(t, err)
	w.Write(t, 20)
	want = storetest.ShowRetained(t, db, 0)
	assert.OK(t, db.Close())
	return mem, want, options
}

// TestCheckpointCrashes crashes before each file operation of a checkpoint: the copy is
// whole, or no store; the source is as it was.
func TestCheckpointCrashes(t *testing.T) {
	t.Parallel()
	source, want, options := checkpointed(t)
	for _, refused := range []faultfs.Kind{0, faultfs.Link | faultfs.Clone} {
		mem := source.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		type point struct {
			fs   *vfs.Mem
			what string
		}
		var points []point
		take := func(what string) {
			for mode := range vfs.Chaos + 1 {
				c := mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(len(points))})
				points = append(points, point{c, fmt.Sprintf("%s, mode %d", what, mode)})
			}
		}
		var on bool
		var mu sync.Mutex
		faulty := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if on && op.Kind&(faultfs.Changes|faultfs.Syncs|faultfs.Lock) != 0 {
				take(op.String())
			}
		}})
		if refused != 0 {
			faulty.Inject(faultfs.Fault{Kinds: refused, Times: faultfs.Always})
		}
		db, err := brock.Open(options(faulty, "store"))
		assert.OK(t, err)
		mu.Lock()
		on = true
		mu.Unlock()
		assert.OK(t, db.Checkpoint(t.Context(), "/copy"))
		mu.Lock()
		on = false
		take("the end")
		mu.Unlock()
		assert.OK(t, db.Close())
		whole := 0
		for i, c := range points {
			if testing.Short() && i%3 != 0 && i < len(points)-4 {
				continue
			}
			o := options(c.fs, "copy")
			o.MustExist = true
			made, err := brock.Open(o)
			if err == nil {
				whole++
				assert.SameText(t, c.what, storetest.ShowRetained(t, made, 0), want)
				assert.OK(t, made.Verify(t.Context(), nil))
				assert.OK(t, made.Close())
			} else if !errors.Is(err, brock.ErrNotExist) && !errors.Is(err, brock.ErrCorrupt) {
				t.Errorf("%s: %v", c.what, err)
			}
			if err != nil && i >= len(points)-4 {
				t.Errorf("%s: the checkpoint that was made: %v", c.what, err)
			}
			if i%7 == 0 {
				db, err := brock.Open(options(c.fs, "store"))
				assert.OK(t, err)
				assert.SameText(t, c.what+", the source", storetest.ShowRetained(t, db, 0), want)
				assert.OK(t, db.Close())
			}
		}
		t.Logf("%d crashes, %d of them after SUPER was written", len(points), whole)
	}
}

// TestCheckpointFails has each file operation of a checkpoint fail, by an error or a full
// disk: nothing is left, and the store goes on.
func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	source, want, options := checkpointed(t)
	for _, cause := range []error{faultfs.ErrIO, faultfs.ErrNoSpace} {
		for n := 1; ; n++ {
			mem := source.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			faulty := faultfs.New(mem, faultfs.Options{})
			db, err := brock.Open(options(faulty, "store"))
			assert.OK(t, err)
			assert.OK(t, db.Flush(t.Context()))
			if n%2 == 0 { // links are refused
				faulty.Inject(faultfs.Fault{Kinds: faultfs.Link, Times: faultfs.Always})
			}
			struck := faulty.Struck()
			faulty.Inject(faultfs.Fault{Kinds: faultfs.Changes&^faultfs.Link | faultfs.Syncs | faultfs.Lock, Nth: (n + 1) / 2, Err: cause})
			err = db.Checkpoint(t.Context(), "/copy")
			ended := n%2 == 1 && faulty.Struck() == struck
			faulty.Heal()
			if err == nil {
				made, err := brock.Open(options(mem, "copy"))
				assert.OK(t, err)
				assert.SameText(t, fmt.Sprint("operation ", n), storetest.ShowRetained(t, made, 0), want)
				assert.OK(t, made.Close())
			} else if _, stat := mem.Stat("/copy"); !errors.Is(stat, fs.ErrNotExist) {
				names, _ := mem.List("/copy")
				t.Errorf("operation %d, %v: there are %v", n, err, names)
			}
			assert.SameText(t, "the source", storetest.ShowRetained(t, db, 0), want)
			assert.OK(t, db.Set([]byte("goes"), []byte("on")))
			assert.OK(t, db.Verify(t.Context(), nil))
			assert.OK(t, db.Close())
			if ended {
				break
			}
			if testing.Short() {
				n++
			}
		}
	}
}

// TestCheckpointStopsNobody holds a checkpoint up at each of its links: commits, flushes
// and collections go on.
func TestCheckpointStopsNobody(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	reached, goOn := make(chan struct{}), make(chan struct{})
	faulty := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind == faultfs.Link {
			reached <- struct{}{}
			<-goOn
		}
	}})
	p := storetest.Place{FS: faulty, Dir: "/"}
	db, err := brock.Open(p.RetainingOptions("store", ""))
	assert.OK(t, err)
	defer db.Close()
	w := storetest.NewWorkload(t, db, 1)
	w.Write(t, 100)
	want, done := storetest.ShowRetained(t, db, 0), make(chan error)
	go func() { done <- db.Checkpoint(t.Context(), "/copy") }()
	links := 0
	for ended := false; !ended; {
		select {
		case <-reached:
			links++
			w.Write(t, 20)
			assert.OK(t, db.Compact(t.Context()))
			_, err := db.Reclaim(t.Context())
			assert.OK(t, err)
			goOn <- struct{}{}
		case err := <-done:
			assert.OK(t, err)
			ended = true
		}
	}
	if links == 0 {
		t.Error("no file was linked")
	}
	made := storetest.OpenExisting(t, storetest.Place{FS: mem, Dir: "/"}.RetainingOptions("copy", ""))
	assert.SameText(t, "the checkpoint", storetest.ShowRetained(t, made, 0), want)
	assert.OK(t, made.Verify(t.Context(), nil))
	assert.OK(t, db.Verify(t.Context(), nil))
}

// TestCloseEndsACheckpoint closes a store whose checkpoint is held up before a file is
// linked: Close doesn't wait, the checkpoint ends with an error, and leaves nothing.
func TestCloseEndsACheckpoint(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		reached, goOn := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		faulty := faultfs.New(p.FS, faultfs.Options{Before: func(op faultfs.Op) {
			if op.Kind == faultfs.Link && held.CompareAndSwap(false, true) {
				close(reached)
				<-goOn
			}
		}})
		o := p.TinyOptions("store", "")
		o.FS = faulty
		db, err := brock.Open(o)
		assert.OK(t, err)
		storetest.NewWorkload(t, db, 1).Write(t, 100)
		done := make(chan error)
		go func() { done <- db.Checkpoint(t.Context(), p.Join("copy")) }()
		<-reached
		want := storetest.ShowContents(t, db)
		assert.OK(t, db.Close())
		close(goOn)
		assert.Error(t, "the checkpoint", <-done, brock.ErrClosed)
		_, err = p.FS.Stat(p.Join("copy"))
		assert.Error(t, "what it leaves", err, fs.ErrNotExist)
		db = storetest.OpenExisting(t, p.TinyOptions("store", ""))
		assert.Equal(t, "the source", storetest.ShowContents(t, db), want)
		assert.OK(t, db.Verify(t.Context(), nil))
	})
}
