// Package load tests Loaders: what they load, and that nothing is left of a load that does not
// finish.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// smallOptions are those of a store whose files are small, so that a load has many.
func smallOptions(fs vfs.FS) brock.Options {
	return brock.Options{Dir: "/s", FS: fs, Tuning: brock.Tuning{SegmentSize: 64 << 10, RunFileSize: 1 << 20}}
}

// countFiles is how many runs and value segments there are.
func countFiles(fs vfs.FS) (n int) {
	for _, name := range assert.Must(fs.List("/s")) {
		if ext := filepath.Ext(name); ext == ".run" || ext == ".val" {
			n++
		}
	}
	return n
}

// showPairs has a line for each pair of a keyspace, without its version and long bytes.
func showPairs(t *testing.T, ks *brock.Keyspace) (lines []string) {
	t.Helper()
	assert.OK(t, ks.View(func(txn *brock.Txn) error {
		for it, err := range txn.All() {
			if err != nil {
				return err
			}
			value := assert.Must(it.Value())
			lines = append(lines, fmt.Sprintf("%.40x %d meta %d expires %d: %d %.30x %x", it.Key(), len(it.Key()), it.Meta(), it.ExpiresAt().UnixMilli(), len(value), value, crc(value)))
		}
		return nil
	}))
	return lines
}

func crc(p []byte) (sum uint64) {
	for _, b := range p {
		sum = sum*0x9e3779b97f4a7c15 + uint64(b)
	}
	return sum
}

func drawEntry(r *rand.Rand, now time.Time) *brock.Entry {
	e := brock.NewEntry(storetest.RandomBytes(r.IntN(300), 1+r.IntN(8)), nil).WithMeta(byte(r.IntN(3)))
	if r.IntN(150) == 0 {
		e.Key = append(e.Key, make([]byte, brock.MaxKeySize-len(e.Key))...)
	}
	n := []int{0, 1, r.IntN(100), 63, 64, 511, 512, r.IntN(3000)}[r.IntN(8)]
	if r.IntN(60) == 0 {
		n = 1<<20 - 5 + r.IntN(1<<20)
	}
	e.Value = make([]byte, n)
	if r.IntN(2) == 0 {
		e.Value = storetest.RandomBytes(r.IntN(1000), n)
	}
	switch r.IntN(6) {
	case 0:
		e.WithTTL(time.Duration(1 + r.Int64N(1e12)))
	case 1:
		e.WithExpiry(now.Add(time.Hour))
	case 2:
		e.WithOnlyLatest()
	}
	return e
}

// TestLoadEqualsBatch: whatever is loaded, and however, is there as if a batch had written it, also
// after compactions and over reopening.
func TestLoadEqualsBatch(t *testing.T) {
	for range 6 {
		seed := draw.Seed(t)
		r := rand.New(rand.NewPCG(seed, 1))
		o := smallOptions(vfs.NewMem())
		clock := storetest.NewClock(4_000_000_000_000)
		o.Now, o.Keys = clock.Now, storetest.DrawKeys(t)
		o.KeyspaceDefaults = brock.KeyspaceOptions{ValueThreshold: []int{0, -1, 64}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			o.KeyspaceDefaults.Compression, o.KeyspaceDefaults.TTL = brock.Zstd, time.Hour
		}
		db := assert.Must(brock.Open(o))
		loaded, batched := storetest.OpenKeyspace(t, db, "loaded"), storetest.OpenKeyspace(t, db, "batched")
		for round := range 3 {
			lo := brock.LoadOptions{Sorted: r.IntN(3) > 0, Replace: r.IntN(2) == 0, MaxMemory: []int64{0, 1, 5000, 100_000}[r.IntN(4)]}
			entries := make([]*brock.Entry, r.IntN(200))
			for i := range entries {
				entries[i] = drawEntry(r, clock.Now())
			}
			if lo.Sorted {
				slices.SortFunc(entries, func(a, b *brock.Entry) int { return bytes.Compare(a.Key, b.Key) })
				entries = slices.CompactFunc(entries, func(a, b *brock.Entry) bool { return bytes.Equal(a.Key, b.Key) })
			}
			b := db.NewBatch().In(batched)
			if lo.Replace {
				assert.OK(t, b.DeleteRange(nil, nil))
			}
			l := assert.Must(loaded.NewLoader(t.Context(), lo))
			for _, e := range entries {
				assert.OK(t, b.SetEntry(e))
				assert.OK(t, l.SetEntry(e))
				clear(e.Key) // the caller's again
				clear(e.Value)
			}
			assert.Must(b.Commit(t.Context(), 0))
			before := db.Version()
			version := assert.Must(l.Finish())
			if len(entries) > 0 || lo.Replace {
				assert.Equal(t, "version", version, before+1)
			} else {
				assert.Equal(t, "version", version, 0)
			}
			assert.Equal(t, "the store's version", db.Version(), max(version, before))
			check := func(when string) {
				t.Helper()
				got, want := showPairs(t, loaded), showPairs(t, batched)
				for i := range max(len(got), len(want)) {
					if i >= len(got) || i >= len(want) || got[i] != want[i] {
						t.Fatalf("seed %d, round %d, %+v, %s: %d pairs, want %d; from pair %d on %q, want %q", seed, round, lo, when, len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
					}
				}
			}
			check("at once")
			if r.IntN(2) == 0 {
				assert.OK(t, db.Compact(t.Context()))
				check("after a compaction")
			}
			if r.IntN(2) == 0 {
				assert.OK(t, db.Close())
				db = assert.Must(brock.Open(o))
				loaded, batched = storetest.OpenKeyspace(t, db, "loaded"), storetest.OpenKeyspace(t, db, "batched")
				check("reopened")
			}
			assert.OK(t, db.Verify(t.Context(), nil))
		}
		assert.OK(t, db.Close())
	}
}

// TestDisorderIsRefused: a sorted load refuses a key that is not greater than the one before, names
// it, and loads the others.
func TestDisorderIsRefused(t *testing.T) {
	for _, memory := range []int64{0, 1} {
		db := storetest.Open(t, brock.Options{})
		l := assert.Must(db.Default().NewLoader(t.Context(), brock.LoadOptions{Sorted: true, MaxMemory: memory}))
		for _, step := range []struct {
			key    string
			reason string
		}{
			{"", ""},
			{"", `key "" is not greater than the one before, ""`},
			{"b", ""},
			{"b", `key "b" is not greater than the one before, "b"`},
			{"a", `key "a" is not greater than the one before, "b"`},
			{"b\x00", ""},
			{"b", `key "b" is not greater than the one before, "b\x00"`},
			{strings.Repeat("c", brock.MaxKeySize+1), "key larger"},
			{"c", ""},
			{"b\xff", `key "b\xff" is not`},
			{"c1", ""},
		} {
			err := l.Set([]byte(step.key), []byte("v"+step.key))
			if step.reason == "" {
				assert.OK(t, err)
				continue
			}
			assert.Error(t, step.key[:min(len(step.key), 9)], err, brock.ErrInvalid)
			if !strings.Contains(err.Error(), step.reason) {
				t.Errorf("%.9q: %v, want %s", step.key, err, step.reason)
			}
		}
		assert.Error(t, "nil", l.SetEntry(nil), brock.ErrInvalid)
		assert.Error(t, "a negative time to live", l.SetEntry(&brock.Entry{Key: []byte("d"), TTL: -1}), brock.ErrInvalid)
		assert.OK(t, l.Set([]byte("c2"), nil)) // "d" was refused, and is not the one before
		assert.Equal(t, "version", assert.Must(l.Finish()), 1)
		assert.Equal(t, "loaded", storetest.ShowContents(t, db), "=v b=vb b\x00=vb\x00 c=vc c1=vc1 c2=")
		assert.Error(t, "after Finish", l.Set([]byte("x"), nil), brock.ErrInvalid)
		assert.Error(t, "Finish again", assert.ErrorOf(l.Finish()), brock.ErrInvalid)
		l.Abort()
		assert.Equal(t, "loaded", storetest.ShowContents(t, db), "=v b=vb b\x00=vb\x00 c=vc c1=vc1 c2=")
	}
}

// TestMisuse: what can't be loaded to is refused at the beginning.
func TestMisuse(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	var zero brock.Loader
	zero.Abort()
	assert.Error(t, "zero", zero.Set([]byte("a"), nil), brock.ErrClosed)
	assert.Error(t, "zero", assert.ErrorOf(zero.Finish()), brock.ErrClosed)
	assert.Error(t, "zero", assert.ErrorOf(new(brock.Keyspace).NewLoader(t.Context(), brock.LoadOptions{})), brock.ErrClosed)
	var nothing context.Context
	assert.Error(t, "no context", assert.ErrorOf(db.Default().NewLoader(nothing, brock.LoadOptions{})), brock.ErrInvalid)
	for _, memory := range []int64{-1, 1<<30 + 1} {
		assert.Error(t, "memory", assert.ErrorOf(db.Default().NewLoader(t.Context(), brock.LoadOptions{MaxMemory: memory})), brock.ErrInvalid)
	}
	mem := vfs.NewMem()
	assert.OK(t, assert.Must(brock.Open(smallOptions(mem))).Close())
	o := smallOptions(mem)
	o.Mode = brock.ReadOnly
	reader := assert.Must(brock.Open(o))
	defer reader.Close()
	assert.Error(t, "read only", assert.ErrorOf(reader.Default().NewLoader(t.Context(), brock.LoadOptions{})), brock.ErrReadOnly)
}

// fill loads n pairs, half of them with large values, into the keyspace.
func fill(l *brock.Loader, n int, value string) error {
	long := strings.Repeat(value, 2000/len(value))
	for i := range n {
		v := value
		if i%2 == 1 {
			v = long
		}
		if err := l.Set(fmt.Appendf(nil, "k%06d", i), []byte(v)); err != nil {
			return err
		}
	}
	return nil
}

// loaded says what of the pairs of fill is there: "all", "nothing", or what is wrong.
func loaded(ks *brock.Keyspace, n int, value string) string {
	got, whole := 0, true
	err := ks.View(func(txn *brock.Txn) error {
		for it, err := range txn.Prefix([]byte("k")) {
			if err != nil {
				return err
			}
			v, err := it.Value()
			if err != nil {
				return err
			}
			whole = whole && string(it.Key()) == fmt.Sprintf("k%06d", got) && strings.HasPrefix(string(v), value)
			got++
		}
		return nil
	})
	switch {
	case err != nil:
		return err.Error()
	case got == 0:
		return "nothing"
	case got == n && whole:
		return "all"
	}
	return fmt.Sprintf("%d keys", got)
}

var kinds = []brock.LoadOptions{{Sorted: true, MaxMemory: 20_000}, {MaxMemory: 20_000}, {Sorted: true, Replace: true, MaxMemory: 20_000}}

// TestLoadOverPowerLoss: whenever the power fails, all of a load is there or nothing, and nothing is
// left on the disk. With Replace, what was there before is there, or the load.
func TestLoadOverPowerLoss(t *testing.T) {
	const n = 150
	for _, lo := range kinds {
		mem := vfs.NewMem()
		type crash struct {
			at       string
			mem      *vfs.Mem
			finished bool
		}
		var mu sync.Mutex
		var crashes []crash
		watching, finished := false, false
		clone := func(at string) {
			for seed, mode := range []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Chaos} {
				crashes = append(crashes, crash{at, mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(seed + len(crashes))}), finished})
			}
		}
		fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if watching && op.Kind&(faultfs.Create|faultfs.Write|faultfs.Sync|faultfs.SyncDir|faultfs.Rename|faultfs.Remove) != 0 {
				clone(op.String())
			}
		}})
		db := assert.Must(brock.Open(smallOptions(fs)))
		storetest.Set(t, db, "a=1", "k000000=before")
		mu.Lock()
		watching = true
		mu.Unlock()
		l := assert.Must(db.Default().NewLoader(t.Context(), lo))
		assert.OK(t, fill(l, n, "new"))
		assert.Must(l.Finish())
		mu.Lock()
		finished = true
		clone("the end")
		watching = false
		mu.Unlock()
		assert.OK(t, db.Close())
		if len(crashes) < 20 {
			t.Errorf("only %d crashes", len(crashes))
		}
		seen := map[string]int{}
		for _, c := range crashes {
			db, err := brock.Open(smallOptions(c.mem))
			assert.OK(t, err)
			got := loaded(db.Default(), n, "new")
			old := storetest.ShowItems(assert.Must(db.Begin(t.Context(), brock.TxnOptions{})).Range(nil, []byte("k000001")))
			switch {
			case got == "all" && lo.Replace && !strings.HasPrefix(old, "k000000=new"), got == "all" && !lo.Replace && !strings.HasPrefix(old, "a=1 k000000=new"),
				got != "all" && old != "a=1 k000000=before", got != "all" && c.finished:
				t.Errorf("%+v, crash before %s: %s, and before it %s", lo, c.at, got, old)
			case got == "all":
				seen["all"]++
			default:
				seen["nothing"]++
				// What was there before may be in one run, which Finish flushes.
				if n := countFiles(c.mem); n > 1 {
					t.Errorf("%+v, crash before %s: %d files are left", lo, c.at, n)
				}
			}
			assert.OK(t, db.Verify(t.Context(), nil))
			assert.OK(t, db.Close())
		}
		if seen["all"] == 0 || seen["nothing"] == 0 {
			t.Errorf("%+v: %v", lo, seen)
		}
	}
}

// TestLoadOnAFullDisk: whichever operation meets a full disk, the load fails as a whole with
// ErrNoSpace and leaves no file, and the store goes on.
func TestLoadOnAFullDisk(t *testing.T) {
	const n = 150
	for _, lo := range kinds {
		mem := vfs.NewMem()
		fs := faultfs.New(mem, faultfs.Options{})
		db := assert.Must(brock.Open(smallOptions(fs)))
		for nth := 1; ; nth++ {
			storetest.Set(t, db, fmt.Sprintf("a=%d", nth))
			l := assert.Must(db.Default().NewLoader(t.Context(), lo))
			fs.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Nth: nth, Err: faultfs.ErrNoSpace, Short: true})
			err := fill(l, n, "new")
			if err == nil {
				_, err = l.Finish()
			} else if again := assert.ErrorOf(l.Finish()); again != err {
				t.Errorf("Finish returns %v after %v", again, err)
			}
			fs.Heal()
			if err == nil {
				if nth < 5 {
					t.Errorf("only %d operations could fail", nth-1)
				}
				assert.Equal(t, "loaded", loaded(db.Default(), n, "new"), "all")
				break
			}
			if !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
				t.Fatalf("%+v, operation %d: %v", lo, nth, err)
			}
			assert.Equal(t, "loaded", loaded(db.Default(), n, "new"), "nothing")
			assert.Equal(t, "a", string(assert.Must(db.Get([]byte("a")))), fmt.Sprint(nth))
			assert.OK(t, db.DropAll(t.Context()))
			assert.OK(t, db.Compact(t.Context()))
			deadline.Wait(t, "no file is left", func() bool { return countFiles(mem) == 0 })
		}
		assert.OK(t, db.Verify(t.Context(), nil))
		assert.OK(t, db.Close())
	}
}

// TestUnfinishedLoadLeavesNothing: the files of a load that is aborted, fails or is lost are removed,
// and those of one that outlives its store by the next Open.
func TestUnfinishedLoadLeavesNothing(t *testing.T) {
	for _, lo := range kinds {
		mem := vfs.NewMem()
		db := assert.Must(brock.Open(smallOptions(mem)))
		begin := func(ctx context.Context, ks *brock.Keyspace) *brock.Loader {
			t.Helper()
			l := assert.Must(ks.NewLoader(ctx, lo))
			assert.OK(t, fill(l, 300, "new"))
			if countFiles(mem) == 0 {
				t.Error("no file was written")
			}
			return l
		}
		l := begin(t.Context(), db.Default())
		l.Abort()
		assert.Equal(t, "files after Abort", countFiles(mem), 0)
		l.Abort()
		assert.Error(t, "set", l.Set([]byte("x"), nil), brock.ErrInvalid)
		assert.Error(t, "finish", assert.ErrorOf(l.Finish()), brock.ErrInvalid)

		ctx, cancel := context.WithCancel(t.Context())
		l = begin(ctx, db.Default())
		cancel()
		assert.Error(t, "set", l.Set([]byte("x"), nil), context.Canceled)
		assert.Equal(t, "files after the end of the context", countFiles(mem), 0)

		ks := storetest.OpenKeyspace(t, db, "dropped")
		l, other := begin(t.Context(), ks), begin(t.Context(), ks)
		assert.OK(t, ks.Drop(t.Context()))
		assert.Error(t, "set", l.Set([]byte("x"), nil), brock.ErrKeyspaceNotFound)
		assert.Error(t, "finish", assert.ErrorOf(other.Finish()), brock.ErrKeyspaceNotFound)
		assert.Equal(t, "files after a drop", countFiles(mem), 0)

		func() { begin(t.Context(), db.Default()) }() // lost
		deadline.Wait(t, "the files of a lost load are removed", func() bool {
			runtime.GC()
			return countFiles(mem) == 0
		})
		assert.Equal(t, "loaded", loaded(db.Default(), 300, "new"), "nothing")

		l, other = begin(t.Context(), db.Default()), begin(t.Context(), db.Default())
		assert.OK(t, db.Close())
		assert.Error(t, "set", l.Set([]byte("x"), nil), brock.ErrClosed)
		other.Abort()
		if countFiles(mem) == 0 {
			t.Error("files of a closed store were removed")
		}
		db = assert.Must(brock.Open(smallOptions(mem)))
		assert.Equal(t, "files after Open", countFiles(mem), 0)
		assert.OK(t, db.Close())
	}
}

// TestDropDuringFinish: a keyspace that is dropped while its load is checked refuses the load.
func TestDropDuringFinish(t *testing.T) {
	mem := vfs.NewMem()
	var once sync.Once
	var drop func()
	fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		// The last step before the commit: the run is made durable.
		if drop != nil && op.Kind == faultfs.SyncDir {
			once.Do(drop)
		}
	}})
	db := assert.Must(brock.Open(smallOptions(fs)))
	ks := storetest.OpenKeyspace(t, db, "dropped")
	l := assert.Must(ks.NewLoader(t.Context(), kinds[0]))
	assert.OK(t, fill(l, 100, "new"))
	drop = func() { assert.OK(t, ks.Drop(t.Context())) }
	assert.Error(t, "finish", assert.ErrorOf(l.Finish()), brock.ErrKeyspaceNotFound)
	assert.OK(t, db.Compact(t.Context()))
	assert.Equal(t, "files", countFiles(mem), 0)
	assert.OK(t, db.Close())
}

// TestReplaceBesideReaders: who has begun before sees what was there, and an iterator in the middle
// goes on.
func TestReplaceBesideReaders(t *testing.T) {
	for _, lo := range kinds {
		lo.Replace = true
		db := storetest.Open(t, brock.Options{})
		ks := storetest.OpenKeyspace(t, db, "k")
		other := storetest.OpenKeyspace(t, db, "l")
		assert.OK(t, other.Set([]byte("other"), nil))
		l := assert.Must(ks.NewLoader(t.Context(), brock.LoadOptions{Sorted: true, MaxMemory: 20_000}))
		assert.OK(t, fill(l, 200, "old"))
		assert.Must(l.Finish())
		old := assert.Must(db.Begin(t.Context(), brock.TxnOptions{}))
		defer old.Discard()
		it := old.In(ks).NewIterator(brock.IteratorOptions{})
		defer it.Close()
		it.Rewind()
		for range 50 {
			it.Next()
		}
		l = assert.Must(ks.NewLoader(t.Context(), lo))
		assert.OK(t, fill(l, 100, "new"))
		assert.Equal(t, "before Finish", loaded(ks, 200, "old"), "all")
		assert.Must(l.Finish())
		assert.OK(t, db.Compact(t.Context()))
		n := 50
		for ; it.Valid(); it.Next() {
			assert.Equal(t, "key", string(it.Item().Key()), fmt.Sprintf("k%06d", n))
			if v := assert.Must(it.Item().Value()); !bytes.HasPrefix(v, []byte("old")) {
				t.Fatalf("%s: %.9q", it.Item().Key(), v)
			}
			n++
		}
		assert.OK(t, it.Err())
		assert.Equal(t, "keys of the old reader", n, 200)
		assert.Equal(t, "loaded", loaded(ks, 100, "new"), "all")
		assert.Equal(t, "another keyspace", assert.Must(other.Has([]byte("other"))), true)
	}
}

// TestLoadsBesideWriters: of all that write a key, the one that commits last counts, whenever a load
// has begun. Commits go on while loads are under way.
func TestLoadsBesideWriters(t *testing.T) {
	for _, lo := range kinds[:2] {
		db := storetest.Open(t, smallOptions(vfs.NewMem()))
		ks := storetest.OpenKeyspace(t, db, "k")
		get := func(key string) string { return string(assert.Must(ks.Get([]byte(key))))[:1] }
		first, second := assert.Must(ks.NewLoader(t.Context(), lo)), assert.Must(ks.NewLoader(t.Context(), lo))
		stop := make(chan struct{})
		var writers sync.WaitGroup
		last := map[string]uint64{}
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("k%06d", i%500)
				b := db.NewBatch().In(ks)
				assert.OK(t, b.Set([]byte(key), []byte("w")))
				last[key] = assert.Must(b.Commit(t.Context(), brock.Buffered))
			}
		})
		var fills sync.WaitGroup
		fills.Go(func() { assert.OK(t, fill(first, 1000, "1")) })
		fills.Go(func() { assert.OK(t, fill(second, 1000, "2")) })
		fills.Wait()
		v2 := assert.Must(second.Finish())
		v1 := assert.Must(first.Finish())
		close(stop)
		writers.Wait()
		if v1 <= v2 {
			t.Errorf("versions %d and then %d", v2, v1)
		}
		for i := range 1000 {
			key, want := fmt.Sprintf("k%06d", i), "1"
			if last[key] > v1 {
				want = "w"
			}
			assert.Equal(t, key, get(key), want)
		}
		assert.OK(t, ks.Set([]byte("k000007"), []byte("z")))
		assert.OK(t, db.Compact(t.Context()))
		assert.Equal(t, "behind the loads", get("k000007"), "z")
		assert.Equal(t, "first", get("k000999"), "1")
		assert.OK(t, db.Verify(t.Context(), nil))
	}
}

// TestLoadIsOneChange: the change feed has a load as one commit: first the delete of what it has
// replaced, then its pairs in the order of keys.
func TestLoadIsOneChange(t *testing.T) {
	for _, lo := range kinds {
		db := storetest.Open(t, smallOptions(vfs.NewMem()))
		ks := storetest.OpenKeyspace(t, db, "k")
		assert.OK(t, ks.Set([]byte("before"), nil))
		var want uint64
		for c, err := range db.Watch(t.Context(), brock.WatchOptions{}) {
			assert.OK(t, err)
			if want == 0 {
				l := assert.Must(ks.NewLoader(t.Context(), lo))
				assert.OK(t, fill(l, 100, "new"))
				want = assert.Must(l.Finish())
				continue
			}
			assert.Equal(t, "version", c.Version, want)
			n := 0
			for ch, err := range c.Changes() {
				assert.OK(t, err)
				assert.Equal(t, "keyspace", ch.Keyspace, "k")
				if lo.Replace && ch.Kind == brock.ChangeDeleteRange && n == 0 && len(ch.Key) == 0 && ch.Upper == nil {
					lo.Replace = false
					continue
				}
				assert.Equal(t, "key", string(ch.Key), fmt.Sprintf("k%06d", n))
				assert.Equal(t, "value", string(assert.Must(ch.Value())[:3]), "new")
				n++
			}
			assert.Equal(t, "pairs", n, 100)
			assert.Equal(t, "its range is to come", lo.Replace, false)
			break
		}
	}
}

// TestDamagedLoad: damage of what was loaded is an error that names the file, and never a wrong value.
func TestDamagedLoad(t *testing.T) {
	mem := vfs.NewMem()
	db := assert.Must(brock.Open(smallOptions(mem)))
	l := assert.Must(db.Default().NewLoader(t.Context(), kinds[0]))
	assert.OK(t, fill(l, 300, "new"))
	assert.Must(l.Finish())
	assert.OK(t, db.Close())
	found := map[string]bool{}
	for _, end := range []string{".run", ".val"} {
		for _, name := range assert.Must(mem.List("/s")) {
			if filepath.Ext(name) != end {
				continue
			}
			broken := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			storetest.FlipBit(t, broken, filepath.Join("/s", name), 4000)
			db, err := brock.Open(smallOptions(broken))
			if err == nil {
				err = db.Verify(t.Context(), nil)
				_ = db.Close()
			}
			var damage *brock.CorruptionError
			if !errors.As(err, &damage) || damage.File != name {
				t.Errorf("%s: %v", name, err)
			}
			found[end] = true
		}
	}
	assert.Equal(t, "kinds of files", strings.Join(slices.Sorted(maps.Keys(found)), " "), ".run .val")
}
