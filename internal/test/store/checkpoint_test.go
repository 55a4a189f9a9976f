package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// retained is everything that a store has retained up to a version: of all keyspaces
// each version of each key, with meta byte, expiry and value.
func retained(t testing.TB, db *brock.DB, at uint64) string {
	t.Helper()
	var all strings.Builder
	txn, err := db.Begin(t.Context(), brock.TxnOptions{ReadAt: at})
	must(t, err)
	defer txn.Discard()
	in := func(name string, txn *brock.Txn) {
		fmt.Fprintf(&all, "[%s]\n", name)
		for it, err := range txn.Items(brock.IteratorOptions{AllVersions: true}) {
			must(t, err)
			fmt.Fprintf(&all, "%q %d %d %d %v", it.Key(), it.Version(), it.Meta(), it.ExpiresAt().UnixMilli(), it.OnlyLatest())
			if it.Deleted() {
				all.WriteString(" deleted\n")
				continue
			}
			v, err := it.Value()
			must(t, err)
			fmt.Fprintf(&all, " %d bytes %08x\n", len(v), checksum.Plain(v))
		}
	}
	in("", txn)
	for ks := range db.Keyspaces() {
		in(ks.Name(), txn.In(ks))
	}
	return all.String()
}

// same compares what two stores have retained, and says where they begin to differ.
func same(t testing.TB, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	i = strings.LastIndexByte(got[:i], '\n') + 1
	t.Fatalf("%s: %d and %d bytes, got %.200q, want %.200q", what, len(got), len(want), got[i:], want[min(i, len(want)):])
}

// busy makes all kinds of writes in random order.
type busy struct {
	db  *brock.DB
	rng *rand.Rand
	ks  *brock.Keyspace
}

func newBusy(t testing.TB, db *brock.DB, seed uint64) *busy {
	ks, err := db.Keyspace("fruit", brock.KeyspaceOptions{ValueThreshold: 300, Versions: brock.Retention{Age: time.Hour}})
	must(t, err)
	return &busy{db: db, rng: rand.New(rand.NewPCG(seed, 1)), ks: ks}
}

func (w *busy) step(ctx context.Context) error {
	return w.db.UpdateContext(ctx, brock.TxnOptions{Isolation: brock.LastWriterWins}, func(txn *brock.Txn) error {
		for range 1 + w.rng.IntN(4) {
			to := txn
			if w.rng.IntN(3) == 0 {
				to = txn.In(w.ks)
			}
			key := fmt.Appendf(nil, "key %03d", w.rng.IntN(200))
			var err error
			switch w.rng.IntN(12) {
			case 0:
				err = to.Delete(key)
			case 1:
				err = to.DeleteRange(key, fmt.Appendf(nil, "key %03d", 200+w.rng.IntN(20)))
				if w.rng.IntN(4) > 0 {
					err = nil
				}
			case 2:
				err = to.SetEntry(&brock.Entry{Key: key, Value: key, Meta: 7, ExpiresAt: time.Now().Add(time.Hour)})
			default:
				n := w.rng.IntN(200)
				if w.rng.IntN(3) == 0 {
					n = 1000 + w.rng.IntN(4000)
				}
				err = to.Set(key, incompressible(w.rng.IntN(1000), n))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *busy) steps(t testing.TB, n int) {
	t.Helper()
	for range n {
		must(t, w.step(t.Context()))
	}
}

// retaining is tiny with all history.
func (p place) retaining(name, values string) brock.Options {
	o := p.tiny(name, values)
	o.KeyspaceDefaults.Versions.Age = time.Hour
	return o
}

// opened opens a store that there is, and closes it at the end.
func opened(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.MustExist = true
	db, err := brock.Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// TestCheckpoint makes checkpoints of a store, compares them with it, and then works on
// all of them: they have nothing in common any more.
func TestCheckpoint(t *testing.T) {
	for _, values := range []string{"", "values"} {
		t.Run("ValueDir="+values, func(t *testing.T) {
			onEach(t, func(t *testing.T, p place) {
				db, err := brock.Open(p.retaining("store", values))
				must(t, err)
				defer db.Close()
				must(t, db.Checkpoint(t.Context(), p.in("empty")))
				stores := map[string]*busy{"store": newBusy(t, db, 1)}
				stores["empty"] = newBusy(t, opened(t, p.retaining("empty", "")), 2)
				stores["store"].steps(t, 200)
				for _, name := range []string{"first", "second", "third"} {
					stores["store"].steps(t, 60)
					must(t, db.Checkpoint(t.Context(), p.in(name)))
					if name == "second" {
						must(t, db.Compact(t.Context()))
					}
					made := opened(t, p.retaining(name, ""))
					wantEqual(t, name+"'s version", made.Version(), db.Version())
					same(t, name, retained(t, made, 0), retained(t, db, 0))
					must(t, made.Verify(t.Context(), nil))
					stores[name] = newBusy(t, made, 3)
				}
				// A checkpoint of a checkpoint shares files with both.
				must(t, stores["third"].db.Checkpoint(t.Context(), p.in("fourth")))
				stores["fourth"] = newBusy(t, opened(t, p.retaining("fourth", "")), 4)
				for range 2 {
					now := map[string]string{}
					for name, w := range stores {
						w.steps(t, 40)
						must(t, w.db.Flush(t.Context()))
						if w.rng.IntN(2) == 0 {
							must(t, w.ks.Clear(t.Context()))
						}
						_, err := w.db.Reclaim(t.Context())
						must(t, err)
						now[name] = retained(t, w.db, 0)
					}
					for name, w := range stores {
						same(t, name+" after work on the others", retained(t, w.db, 0), now[name])
					}
				}
				for name, w := range stores {
					if err := w.db.Verify(t.Context(), nil); err != nil {
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
	onEach(t, func(t *testing.T, p place) {
		o := p.tiny("store", "")
		o.Tuning = brock.Tuning{MemtableSize: 1 << 20, SegmentSize: 6 << 20, RunFileSize: 1 << 20} // journal files are kept
		db, err := brock.Open(o)
		must(t, err)
		defer db.Close()
		fill := func(round int) {
			for i := range 150 {
				must(t, db.Set(fmt.Appendf(nil, "key %d", i), incompressible(round*1000+i, 60_000)))
			}
			must(t, db.Flush(t.Context()))
		}
		fill(1)
		must(t, db.Checkpoint(t.Context(), p.in("copy")))
		files := p.contents(t, "copy")
		names, err := p.fs.List(p.in("copy"))
		must(t, err)
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }) {
			t.Fatalf("no journal file is shared: %v", names)
		}
		for round := 2; round < 8; round++ {
			fill(round)
			must(t, db.Compact(t.Context())) // so that all is known to be garbage
		}
		_, err = db.Reclaim(t.Context())
		must(t, err)
		if now := p.contents(t, "copy"); now != files {
			t.Errorf("from\n%s\nto\n%s", files, now)
		}
		made := opened(t, brock.Options{Dir: p.in("copy"), FS: p.fs})
		must(t, made.Verify(t.Context(), nil))
		v, err := made.Get([]byte("key 7"))
		must(t, err)
		if string(v) != string(incompressible(1007, 60_000)) {
			t.Error("the checkpoint has another value")
		}
	})
}

// TestCheckpointBesideWriters makes checkpoints while others write, also transactions
// larger than their memory. Each is the store as of its version.
func TestCheckpointBesideWriters(t *testing.T) {
	mem := vfs.NewMem()
	p := place{mem, "/", mem.Rename}
	db, err := brock.Open(p.retaining("store", ""))
	must(t, err)
	defer db.Close()
	seed := draw.Seed(t)
	newBusy(t, db, seed).steps(t, 100)
	small, large := make(chan struct{}), make(chan struct{})
	var writers sync.WaitGroup
	for i := range uint64(3) {
		w := newBusy(t, db, seed+i+1)
		writers.Go(func() {
			for range small {
				if err := w.step(t.Context()); err != nil {
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
					if err := txn.Set(fmt.Appendf(nil, "large %d", i), incompressible(n+i, 2000)); err != nil {
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
		go func() { done <- db.Checkpoint(t.Context(), p.in(dir)) }()
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
				must(t, err)
				ended = true
			}
		}
		made := opened(t, p.retaining(dir, ""))
		at := made.Version()
		if at < before || at > db.Version() {
			t.Errorf("version %d, not between %d and %d", at, before, db.Version())
		}
		same(t, fmt.Sprintf("seed %d: %s, version %d", seed, dir, at), retained(t, made, 0), retained(t, db, at))
		must(t, made.Verify(t.Context(), nil))
	}
	close(small)
	close(large)
	writers.Wait()
}

// TestCheckpointBesideDrops holds up the flush that a checkpoint waits for. Meanwhile a
// keyspace is made, one gets other options, and perhaps one is dropped: then the
// checkpoint has what was committed before the drop, else nothing of all that.
func TestCheckpointBesideDrops(t *testing.T) {
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
		db, err := brock.Open(place{faulty, "/", nil}.tiny("store", ""))
		must(t, err)
		fruit, nuts := keyspace(t, db, "fruit"), keyspace(t, db, "nuts")
		set(t, db, "commit=before")
		must(t, fruit.Set(b("apple"), b("red")))
		must(t, nuts.Set(b("hazel"), b("brown")))
		at := db.Version()
		held.Store(true)
		done := make(chan error)
		go func() { done <- db.Checkpoint(t.Context(), "/copy") }()
		<-reached
		set(t, db, "commit=later")
		must(t, keyspace(t, db, "later").Set(b("a"), b("1")))
		must(t, nuts.SetOptions(brock.KeyspaceOptions{TTL: time.Hour}))
		want := "commit=before; fruit: apple=red; nuts: hazel=brown"
		if drop {
			must(t, fruit.Drop(t.Context()))
			at, want = db.Version(), "commit=later; later: a=1; nuts: hazel=brown"
		}
		close(goOn)
		must(t, <-done)
		must(t, db.Close())
		made := opened(t, place{mem, "/", nil}.tiny("copy", ""))
		wantEqual(t, "content", contents(t, made), want)
		wantEqual(t, "version", made.Version(), at)
		wantEqual(t, "a keyspace has the options of later", keyspace(t, made, "nuts").Options().TTL != 0, drop)
		must(t, keyspace(t, made, "new").Set(b("a"), b("2")))
		must(t, made.Verify(t.Context(), nil))
	}
}

// TestCheckpointOverDisks makes a checkpoint where files can't be linked, or not even
// cloned, of a store in memory, and of one that has rotted.
func TestCheckpointOverDisks(t *testing.T) {
	for _, refused := range []faultfs.Kind{faultfs.Link, faultfs.Link | faultfs.Clone} {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		p := place{faulty, "/", mem.Rename}
		db, err := brock.Open(p.retaining("store", "values"))
		must(t, err)
		w := newBusy(t, db, 1)
		w.steps(t, 400)
		_, err = db.Reclaim(t.Context()) // for a remap
		must(t, err)
		w.steps(t, 100)
		faulty.Inject(faultfs.Fault{Kinds: refused, Times: faultfs.Always, Err: errors.ErrUnsupported})
		must(t, db.Checkpoint(t.Context(), "/copy"))
		crashed := mem.CrashClone(vfs.CrashOptions{}) // all is synced
		want := retained(t, db, 0)
		_, err = db.Reclaim(t.Context())
		must(t, err)
		for _, fsys := range []vfs.FS{mem, crashed} {
			made := opened(t, place{fsys, "/", nil}.retaining("copy", ""))
			same(t, refused.String()+" refused", retained(t, made, 0), want)
			must(t, made.Verify(t.Context(), nil))
		}
		must(t, db.Close())

		// One flipped bit, wherever it is, is not copied.
		for _, kind := range []string{".run", ".val"} {
			o := p.retaining("store", "values")
			o.Maintenance.ScrubEvery = -1
			db, err := brock.Open(o)
			must(t, err)
			for _, dir := range []string{"/store", "/values"} {
				names, err := mem.List(dir)
				must(t, err)
				for _, name := range names {
					if strings.HasSuffix(name, kind) {
						flipBit(t, mem, filepath.Join(dir, name), 5000)
						err := db.Checkpoint(t.Context(), "/rotten")
						wantErr(t, name+" has rotted", err, brock.ErrCorrupt)
						_, err = mem.Stat("/rotten")
						wantErr(t, "what is left", err, fs.ErrNotExist)
						flipBit(t, mem, filepath.Join(dir, name), 5000)
					}
				}
			}
			must(t, db.Close())
		}
	}
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	newBusy(t, db, 1).steps(t, 200)
	p := place{vfs.OS(), t.TempDir(), os.Rename}
	must(t, db.Checkpoint(t.Context(), p.in("copy")))
	made := opened(t, p.retaining("copy", ""))
	same(t, "of a store in memory", retained(t, made, 0), retained(t, db, 0))
	must(t, made.Verify(t.Context(), nil))
}

func flipBit(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	at %= size
	p := make([]byte, 1)
	_, err = f.ReadAt(p, at)
	must(t, err)
	p[0] ^= 4
	_, err = f.WriteAt(p, at)
	must(t, err)
	must(t, f.Close())
}

// TestCheckpointRefuses makes checkpoints where none can be made.
func TestCheckpointRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		db, err := brock.Open(p.tiny("store", "values"))
		must(t, err)
		set(t, db, "a=1")
		must(t, p.fs.MkdirAll(p.in("there")))
		writeFile(t, p.fs, p.in("file"), "x")
		before := p.contents(t, "there")
		for _, name := range []string{"there", "file", "store", "values"} {
			wantErr(t, name, db.Checkpoint(t.Context(), p.in(name)), brock.ErrExist)
		}
		wantEqual(t, "the directory", p.contents(t, "there"), before)
		wantErr(t, "no name", db.Checkpoint(t.Context(), ""), brock.ErrExist)
		ended, end := context.WithCancel(t.Context())
		end()
		wantErr(t, "an ended context", db.Checkpoint(ended, p.in("new")), context.Canceled)
		_, err = p.fs.Stat(p.in("new"))
		wantErr(t, "what it leaves", err, fs.ErrNotExist)

		// The copy has no ValueDir, and takes none of another store.
		must(t, db.Checkpoint(t.Context(), p.in("deep/er/copy")))
		p.refused(t, "the copy with the source's ValueDir", p.tiny("deep/er/copy", "values"), brock.ErrInvalid, "values", "deep/er/copy")
		must(t, db.Close())
		p.refused(t, "the source with the copy as its ValueDir", p.tiny("store", "deep/er/copy"), brock.ErrForeign, "store", "deep/er/copy")
		wantErr(t, "a closed store", db.Checkpoint(t.Context(), p.in("new")), brock.ErrClosed)
	})
}

// checkpointed is a store in memory with all kinds of files, closed; its history; and
// options to open it.
func checkpointed(t *testing.T) (mem *vfs.Mem, want string, options func(vfs.FS, string) brock.Options) {
	mem = vfs.NewMem()
	options = func(fsys vfs.FS, name string) brock.Options { return place{fsys, "/", nil}.retaining(name, "") }
	db, err := brock.Open(options(mem, "store"))
	must(t, err)
	w := newBusy(t, db, 1)
	w.steps(t, 150)
	_, err = db.Reclaim(t.Context())
	must(t, err)
	w.steps(t, 20)
	want = retained(t, db, 0)
	must(t, db.Close())
	return mem, want, options
}

// TestCheckpointCrashes crashes before each file operation of a checkpoint: the copy is
// whole, or no store; the source is as it was.
func TestCheckpointCrashes(t *testing.T) {
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
		must(t, err)
		mu.Lock()
		on = true
		mu.Unlock()
		must(t, db.Checkpoint(t.Context(), "/copy"))
		mu.Lock()
		on = false
		take("the end")
		mu.Unlock()
		must(t, db.Close())
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
				same(t, c.what, retained(t, made, 0), want)
				must(t, made.Verify(t.Context(), nil))
				must(t, made.Close())
			} else if !errors.Is(err, brock.ErrNotExist) && !errors.Is(err, brock.ErrCorrupt) {
				t.Errorf("%s: %v", c.what, err)
			}
			if err != nil && i >= len(points)-4 {
				t.Errorf("%s: the checkpoint that was made: %v", c.what, err)
			}
			if i%7 == 0 {
				db, err := brock.Open(options(c.fs, "store"))
				must(t, err)
				same(t, c.what+", the source", retained(t, db, 0), want)
				must(t, db.Close())
			}
		}
		t.Logf("%d crashes, %d of them after SUPER was written", len(points), whole)
	}
}

// TestCheckpointFails has each file operation of a checkpoint fail, by an error or a full
// disk: nothing is left, and the store goes on.
func TestCheckpointFails(t *testing.T) {
	source, want, options := checkpointed(t)
	for _, cause := range []error{faultfs.ErrIO, faultfs.ErrNoSpace} {
		for n := 1; ; n++ {
			mem := source.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			faulty := faultfs.New(mem, faultfs.Options{})
			db, err := brock.Open(options(faulty, "store"))
			must(t, err)
			must(t, db.Flush(t.Context()))
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
				must(t, err)
				same(t, fmt.Sprint("operation ", n), retained(t, made, 0), want)
				must(t, made.Close())
			} else if _, stat := mem.Stat("/copy"); !errors.Is(stat, fs.ErrNotExist) {
				names, _ := mem.List("/copy")
				t.Errorf("operation %d, %v: there are %v", n, err, names)
			}
			same(t, "the source", retained(t, db, 0), want)
			must(t, db.Set([]byte("goes"), []byte("on")))
			must(t, db.Verify(t.Context(), nil))
			must(t, db.Close())
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
	mem := vfs.NewMem()
	reached, goOn := make(chan struct{}), make(chan struct{})
	faulty := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind == faultfs.Link {
			reached <- struct{}{}
			<-goOn
		}
	}})
	p := place{faulty, "/", nil}
	db, err := brock.Open(p.retaining("store", ""))
	must(t, err)
	defer db.Close()
	w := newBusy(t, db, 1)
	w.steps(t, 100)
	want, done := retained(t, db, 0), make(chan error)
	go func() { done <- db.Checkpoint(t.Context(), "/copy") }()
	links := 0
	for ended := false; !ended; {
		select {
		case <-reached:
			links++
			w.steps(t, 20)
			must(t, db.Compact(t.Context()))
			_, err := db.Reclaim(t.Context())
			must(t, err)
			goOn <- struct{}{}
		case err := <-done:
			must(t, err)
			ended = true
		}
	}
	if links == 0 {
		t.Error("no file was linked")
	}
	made := opened(t, place{mem, "/", nil}.retaining("copy", ""))
	same(t, "the checkpoint", retained(t, made, 0), want)
	must(t, made.Verify(t.Context(), nil))
	must(t, db.Verify(t.Context(), nil))
}

// TestCloseEndsACheckpoint closes a store whose checkpoint is held up before a file is
// linked: Close doesn't wait, the checkpoint ends with an error, and leaves nothing.
func TestCloseEndsACheckpoint(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		reached, goOn := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		faulty := faultfs.New(p.fs, faultfs.Options{Before: func(op faultfs.Op) {
			if op.Kind == faultfs.Link && held.CompareAndSwap(false, true) {
				close(reached)
				<-goOn
			}
		}})
		o := p.tiny("store", "")
		o.FS = faulty
		db, err := brock.Open(o)
		must(t, err)
		newBusy(t, db, 1).steps(t, 100)
		done := make(chan error)
		go func() { done <- db.Checkpoint(t.Context(), p.in("copy")) }()
		<-reached
		want := contents(t, db)
		must(t, db.Close())
		close(goOn)
		wantErr(t, "the checkpoint", <-done, brock.ErrClosed)
		_, err = p.fs.Stat(p.in("copy"))
		wantErr(t, "what it leaves", err, fs.ErrNotExist)
		db = opened(t, p.tiny("store", ""))
		wantEqual(t, "the source", contents(t, db), want)
		must(t, db.Verify(t.Context(), nil))
	})
}
