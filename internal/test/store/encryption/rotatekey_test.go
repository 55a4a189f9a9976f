package encryption

import (
	"errors"
	"fmt"
	"io"
	"math"
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
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// keyrings names the keyring files of a store.
func keyrings(t *testing.T, fs vfs.FS, dir string) (names []string) {
	t.Helper()
	for _, name := range assert.Must(fs.List(dir)) {
		if strings.HasPrefix(name, "KEYS-") {
			names = append(names, name)
		}
	}
	return names
}

// dataKeys counts the data keys of a store; 0 while a task is replacing the keyring.
func dataKeys(t *testing.T, fs vfs.FS, dir string) int {
	t.Helper()
	names := keyrings(t, fs, dir)
	f, err := fs.Open(filepath.Join(dir, names[len(names)-1]))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	assert.OK(t, err)
	var n [1]byte
	if _, err := f.ReadAt(n[:], 40); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	assert.OK(t, f.Close())
	return int(n[0])
}

// TestRotateKey: a store is the same before and after, in each way to change its keys; with
// Rewrite one data key is left, and one master key is enough.
func TestRotateKey(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", filepath.Join(filepath.Dir(storetest.Dir), "values")} {
		for name, o := range map[string]brock.RotateOptions{
			"new files":           {},
			"master":              {Master: true},
			"all":                 {Rewrite: true},
			"another master":      {Keys: storetest.MasterKey(2)},
			"another for all":     {Keys: storetest.MasterKey(2), Rewrite: true},
			"master, and another": {Keys: storetest.MasterKey(2), Master: true},
		} {
			t.Run(fmt.Sprintf("%s, values in %q", name, values), func(t *testing.T) {
				mem := vfs.NewMem()
				options := storetest.KeyedOptions(mem, storetest.Dir)
				options.ValueDir = values
				db, err := brock.Open(options)
				assert.OK(t, err)
				for n := range 3 {
					secrets(t, db, n)
					assert.OK(t, db.Flush(t.Context()))
				}
				secrets(t, db, 3)
				want := storetest.ShowContents(t, db)
				assert.OK(t, db.RotateKey(t.Context(), o))
				if got := storetest.ShowContents(t, db); got != want {
					t.Fatalf("after RotateKey:\n%.500q\nwant\n%.500q", got, want)
				}
				assert.OK(t, db.Verify(t.Context(), nil))
				old, keys := db.Metrics().Tree.OldKeyBytes, dataKeys(t, mem, storetest.Dir)
				switch {
				case o.Rewrite && (old != 0 || keys != 1):
					t.Errorf("%d bytes are under old keys, and there are %d keys", old, keys)
				case o.Master && (old != 0 || keys != 1):
					t.Errorf("%d bytes are under old keys, and there are %d keys", old, keys)
				case !o.Rewrite && !o.Master && (old == 0 || keys != 2):
					t.Errorf("%d bytes are under old keys, and there are %d keys", old, keys)
				}
				if o.Keys != nil {
					options.Keys = o.Keys
				}
				secrets(t, db, 4)
				want = storetest.ShowContents(t, db)
				crashed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				assert.OK(t, db.Close())
				for _, mem := range []*vfs.Mem{mem, crashed} {
					options.FS = mem
					if db, err = brock.Open(options); err != nil {
						t.Fatal(err)
					}
					if got := storetest.ShowContents(t, db); got != want {
						t.Fatalf("opened again:\n%.500q\nwant\n%.500q", got, want)
					}
					assert.OK(t, db.Verify(t.Context(), nil))
					assert.OK(t, db.Close())
				}
				if o.Keys != nil {
					options.Keys = storetest.MasterKey(1)
					_, err := brock.Open(options)
					assert.Error(t, "Open with the old master key", err, brock.ErrKey)
				}
			})
		}
	}
}

// TestRotateKeyOften: keys under which nothing is are taken away, however often they change.
func TestRotateKeyOften(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	for n := range 80 {
		storetest.Set(t, db, fmt.Sprintf("key=%d", n))
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
		if n%10 == 0 {
			assert.OK(t, db.Compact(t.Context()))
		}
	}
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	if n := dataKeys(t, mem, storetest.Dir); n != 1 {
		t.Errorf("%d data keys", n)
	}
	assert.OK(t, db.Close())
}

// TestRotateKeyBesideWork: the data key changes again and again while a compaction writes its run,
// whose key stays.
func TestRotateKeyBesideWork(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	writing, goOn := make(chan struct{}), make(chan struct{})
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind == faultfs.Write && strings.HasSuffix(op.Path, ".run") && armed.CompareAndSwap(true, false) {
			close(writing)
			<-goOn
		}
	}})
	db, err := brock.Open(storetest.KeyedOptions(fs, storetest.Dir))
	assert.OK(t, err)
	for _, pair := range []string{"a=1", "b=2"} {
		storetest.Set(t, db, pair)
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{})) // the key of no file so far
	armed.Store(true)
	compacted := make(chan error)
	go func() { compacted <- db.Compact(t.Context()) }()
	<-writing
	for range 3 {
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	}
	close(goOn)
	assert.OK(t, <-compacted)
	storetest.Set(t, db, "c=3")
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.Close())
}

// TestRotateKeyRefused: what can't be done changes nothing.
func TestRotateKeyRefused(t *testing.T) {
	t.Parallel()
	plain := storetest.Open(t, brock.Options{})
	assert.Error(t, "of a plain store", plain.RotateKey(t.Context(), brock.RotateOptions{}), brock.ErrUnsupported)
	assert.Error(t, "with keys", plain.RotateKey(t.Context(), brock.RotateOptions{Keys: storetest.MasterKey(1)}), brock.ErrUnsupported)
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	secrets(t, db, 1)
	assert.OK(t, db.Flush(t.Context()))
	before := keyrings(t, mem, storetest.Dir)
	assert.Error(t, "with a bad key", db.RotateKey(t.Context(), brock.RotateOptions{Keys: brock.StaticKey([]byte("short"))}), brock.ErrKey)
	if after := keyrings(t, mem, storetest.Dir); !slices.Equal(before, after) {
		t.Errorf("the keyring was %v, is %v", before, after)
	}
	assert.OK(t, db.Close())
	assert.Error(t, "closed", db.RotateKey(t.Context(), brock.RotateOptions{}), brock.ErrClosed)
	options := storetest.KeyedOptions(mem, storetest.Dir)
	options.Mode = brock.ReadOnly
	db, err = brock.Open(options)
	assert.OK(t, err)
	assert.Error(t, "read-only", db.RotateKey(t.Context(), brock.RotateOptions{}), brock.ErrReadOnly)
	assert.OK(t, db.Close())
}

// rotation is a store with all kinds of files, about to change its keys, from provider 1 to 2.
func rotation(t *testing.T) (mem *vfs.Mem, want string) {
	t.Helper()
	mem = vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	for n := range 3 {
		secrets(t, db, n)
		assert.OK(t, db.Flush(t.Context()))
	}
	secrets(t, db, 3)
	want = storetest.ShowContents(t, db)
	left := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	return left, want
}

// openEither opens a store whose keys were being changed from provider 1 to 2.
func openEither(t *testing.T, fs vfs.FS) *brock.DB {
	t.Helper()
	options := storetest.KeyedOptions(fs, storetest.Dir)
	db, err := brock.Open(options)
	if errors.Is(err, brock.ErrKey) {
		options.Keys = storetest.MasterKey(2)
		db, err = brock.Open(options)
	}
	assert.OK(t, err)
	return db
}

// TestRotateKeyCrashes before each call of changing the keys and rewriting all: the next Open
// finds all that was there, the rewriting goes on by itself, and another RotateKey ends it.
func TestRotateKeyCrashes(t *testing.T) {
	t.Parallel()
	begun, want := rotation(t)
	left := crashes(t, begun, func(fs vfs.FS) {
		db, err := brock.Open(storetest.KeyedOptions(fs, storetest.Dir))
		assert.OK(t, err)
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Keys: storetest.MasterKey(2), Rewrite: true}))
		assert.OK(t, db.Close())
	})
	stride := 11 // no multiple of the modes of a crash
	switch {
	case *storetest.Every:
		stride = 1
	case testing.Short():
		stride = 31
	}
	i := draw.Rand(t).IntN(stride)
	process.LogWhenFailed(t, "crash", &i)
	for ; i < len(left); i += stride {
		mem := left[i]
		db := openEither(t, mem)
		if got := storetest.ShowContents(t, db); got != want {
			t.Fatalf("crash %d: %.500q", i, got)
		}
		assert.OK(t, db.Verify(t.Context(), nil))
		storetest.Set(t, db, "\x00new=1")
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Keys: storetest.MasterKey(2), Rewrite: true}))
		if n, old := dataKeys(t, mem, storetest.Dir), db.Metrics().Tree.OldKeyBytes; n != 1 || old != 0 {
			t.Errorf("crash %d: %d data keys, %d bytes under old ones", i, n, old)
		}
		assert.OK(t, db.Delete([]byte("\x00new")))
		if got := storetest.ShowContents(t, db); got != want {
			t.Fatalf("crash %d, rewritten: %.500q", i, got)
		}
		assert.OK(t, db.Close())
		if names := keyrings(t, mem, storetest.Dir); len(names) != 1 {
			t.Errorf("crash %d: %v", i, names)
		}
	}
}

// TestRotateKeyResumes: a rewriting that was cut short ends after the next Open, by itself.
func TestRotateKeyResumes(t *testing.T) {
	t.Parallel()
	begun, want := rotation(t)
	left := crashes(t, begun, func(fs vfs.FS) {
		db, err := brock.Open(storetest.KeyedOptions(fs, storetest.Dir))
		assert.OK(t, err)
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		assert.OK(t, db.Close())
	})
	resumed := 0
	for i := 0; i < len(left); i += max(len(left)/12, 1) {
		db := openEither(t, left[i])
		if db.Metrics().Tree.OldKeyBytes > 0 {
			resumed++
			deadline.Wait(t, "all is rewritten", func() bool { return db.Metrics().Tree.OldKeyBytes == 0 && dataKeys(t, left[i], storetest.Dir) == 1 })
		}
		if got := storetest.ShowContents(t, db); got != want {
			t.Fatalf("crash %d: %.500q", i, got)
		}
		assert.OK(t, db.Close())
	}
	if resumed == 0 {
		t.Error("nothing was to be resumed")
	}
}

// TestRotateKeyFaults: whichever call fails, the store is as good as before, and another
// RotateKey ends what was begun.
func TestRotateKeyFaults(t *testing.T) {
	t.Parallel()
	begun, want := rotation(t)
	count, step := 0, 7
	if *storetest.Every {
		step = 1
	}
	nth := 1 + draw.Rand(t).IntN(step)
	process.LogWhenFailed(t, "fault", &nth)
	for {
		mem := begun.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		fs := faultfs.New(mem, faultfs.Options{})
		db, err := brock.Open(storetest.KeyedOptions(fs, storetest.Dir))
		assert.OK(t, err)
		for _, err := range []error{faultfs.ErrIO, faultfs.ErrNoSpace} {
			fs.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth, Err: err})
			_ = db.RotateKey(t.Context(), brock.RotateOptions{Keys: storetest.MasterKey(2), Rewrite: true})
		}
		struck := fs.Struck()
		fs.Heal()
		_ = db.Close()
		for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All} {
			db := openEither(t, mem.CrashClone(vfs.CrashOptions{Mode: mode}))
			if got := storetest.ShowContents(t, db); got != want {
				t.Fatalf("fault %d: %.500q", nth, got)
			}
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Keys: storetest.MasterKey(2), Rewrite: true}))
			assert.OK(t, db.Verify(t.Context(), nil))
			assert.OK(t, db.Close())
		}
		if count++; struck == 0 {
			break
		}
		if nth += step; testing.Short() {
			nth += nth / 4
		}
	}
	if count < 10 {
		t.Errorf("%d faults", count)
	}
}

// TestRotateKeyBesides readers, writers, large transactions and copies, which all go on.
func TestRotateKeyBesides(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	secrets(t, db, 1)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	work := func(fn func(n int) error) {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := fn(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work(func(n int) error {
		return db.Set(fmt.Appendf(nil, "w%03d", n%300), storetest.RandomBytes(n, 100*(n%20)))
	})
	work(func(int) error {
		return db.View(func(txn *brock.Txn) error {
			it := txn.NewIterator(brock.IteratorOptions{})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				if _, err := it.Item().ValueCopy(nil); err != nil {
					return err
				}
			}
			return it.Err()
		})
	})
	work(func(n int) error { // larger than its memory
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1000})
		if err != nil {
			return err
		}
		defer txn.Discard()
		for i := range 50 {
			if err := txn.Set(fmt.Appendf(nil, "t%03d", i), storetest.RandomBytes(n, 300)); err != nil {
				return err
			}
		}
		return txn.Commit()
	})
	work(func(n int) error {
		return db.Checkpoint(t.Context(), filepath.Join(filepath.Dir(storetest.Dir), fmt.Sprintf("copy%d", n)))
	})
	for n := range 6 {
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: n%2 == 0, Master: n%3 == 1}))
	}
	close(stop)
	wg.Wait()
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	assert.OK(t, db.Verify(t.Context(), nil))
	want := storetest.ShowContents(t, db)
	assert.OK(t, db.Close())
	if n := dataKeys(t, mem, storetest.Dir); n != 1 {
		t.Errorf("%d data keys", n)
	}
	if db, err = brock.Open(storetest.KeyedOptions(mem, storetest.Dir)); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, "opened again", storetest.ShowContents(t, db), want)
	assert.OK(t, db.Close())
	// Each copy has the keys that it needs.
	for n := 0; ; n++ {
		copied := filepath.Join(filepath.Dir(storetest.Dir), fmt.Sprintf("copy%d", n))
		if _, err := mem.Stat(copied); err != nil {
			break
		}
		db, err := brock.Open(storetest.KeyedOptions(mem, copied))
		assert.OK(t, err)
		assert.OK(t, db.Verify(t.Context(), nil))
		assert.OK(t, db.Close())
	}
}

// TestRotateKeyAcrossATransaction: one that is larger than its memory, and has files under the
// old key, keeps this key until it ends.
func TestRotateKeyAcrossATransaction(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	storetest.Set(t, db, "a=1")
	for _, ends := range []func(*brock.Txn) error{(*brock.Txn).Commit, func(txn *brock.Txn) error { txn.Discard(); return nil }} {
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1000})
		assert.OK(t, err)
		for i := range 50 {
			assert.OK(t, txn.Set(fmt.Appendf(nil, "t%03d", i), storetest.RandomBytes(i, 300)))
		}
		done := make(chan error)
		go func() { done <- db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}) }()
		deadline.Wait(t, "the key has changed", func() bool { return dataKeys(t, mem, storetest.Dir) == 2 })
		assert.OK(t, txn.Set([]byte("t999"), storetest.RandomBytes(1, 3000)))
		assert.OK(t, ends(txn))
		txn.Discard()
		assert.OK(t, <-done)
		if n, old := dataKeys(t, mem, storetest.Dir), db.Metrics().Tree.OldKeyBytes; n != 1 || old != 0 {
			t.Errorf("%d data keys, %d bytes under old ones", n, old)
		}
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.Close())
}

// TestRotateKeyFollowed: a follower goes on, whatever keys the writer has taken away.
func TestRotateKeyFollowed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	secrets(t, db, 0)
	options := storetest.KeyedOptions(mem, storetest.Dir)
	options.Mode = brock.Follow
	follower, err := brock.Open(options)
	assert.OK(t, err)
	for n := range 4 {
		before := storetest.ShowContents(t, follower)
		secrets(t, db, n)
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: n%2 == 0, Master: n == 3}))
		assert.Equal(t, "what the follower has", storetest.ShowContents(t, follower), before)
		assert.Must(follower.Refresh(t.Context()))
		assert.Equal(t, "refreshed", storetest.ShowContents(t, follower), storetest.ShowContents(t, db))
	}
	assert.OK(t, follower.Close())
	assert.OK(t, db.Close())
}

// TestRotateKeyAtEveryStepOfAFollower has the writer rewrite the store under a new data key, and
// take the old one away, before each operation of the file system that a follower's Open, and
// then a Refresh, makes.
func TestRotateKeyAtEveryStepOfAFollower(t *testing.T) {
	t.Parallel()
	storetest.AtEachStep(t, 3, func(t *testing.T, at int) (worked bool) {
		mem := vfs.NewMem()
		o := storetest.KeyedOptions(mem, storetest.Dir)
		db, err := brock.Open(o)
		assert.OK(t, err)
		rotated := func(i int) {
			t.Helper()
			storetest.Set(t, db, fmt.Sprintf("step=%d", i))
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		}
		for i := range 3 {
			storetest.Set(t, db, fmt.Sprintf("a=%d b%d=%s", i, i, strings.Repeat("value", 2000)))
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
		}
		n := 0
		o.FS = faultfs.New(mem, faultfs.Options{Before: func(faultfs.Op) {
			if n++; n == at {
				worked = true
				rotated(at)
			}
		}})
		o.Mode = brock.Follow
		follower, err := brock.Open(o)
		if err != nil {
			t.Fatalf("step %d: Open: %v", at, err)
		}
		rotated(-1)
		if _, err := follower.Refresh(t.Context()); err != nil {
			t.Fatalf("step %d: Refresh: %v", at, err)
		}
		n = math.MinInt
		assert.Must(follower.Refresh(t.Context()))
		assert.Equal(t, "the follower", storetest.ShowContents(t, follower), storetest.ShowContents(t, db))
		assert.OK(t, follower.Close())
		assert.OK(t, db.Close())
		return worked
	})
}

// eventually waits until background work has done something, for a minute at most.
// TestRotateKeyLeavesDamage: a run that can't be read keeps its data key, and is not tried again
// before the next Open. All else is rewritten, and the store goes on.
func TestRotateKeyLeavesDamage(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	options := storetest.KeyedOptions(mem, "db")
	options.Maintenance.IdleAfter = time.Hour
	db, err := brock.Open(options)
	assert.OK(t, err)
	fill := func(from int) {
		t.Helper()
		for n := range 200 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "%05d", from+n), []byte("inline")))
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	fill(0)
	damaged := storetest.ListFiles(t, mem, ".run")[0]
	fill(1000)
	assert.OK(t, db.Close())
	storetest.FlipBit(t, mem, damaged, 4096+100)
	var tried atomic.Int32
	options.Events.Compaction = func(i brock.WorkInfo) {
		if i.Err != nil {
			tried.Add(1)
		}
	}
	var told atomic.Int32
	options.Events.Corruption = func(c *brock.CorruptionError) {
		if len(c.Keys) > 0 {
			told.Add(1)
		}
	}
	db, err = brock.Open(options)
	assert.OK(t, err)
	size := db.Metrics().Tree.OldKeyBytes
	assert.Error(t, "RotateKey", db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}), brock.ErrCorrupt)
	if old := db.Metrics().Tree.OldKeyBytes; size != 0 || old == 0 || old > int64(len(storetest.ReadFile(t, mem, damaged))) {
		t.Errorf("%d bytes are under old keys", old)
	}
	for n := range 3 {
		fill(2000 + 1000*n)
	}
	assert.Error(t, "RotateKey again", db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}), brock.ErrCorrupt)
	if n := tried.Load(); n != 1 {
		t.Errorf("the damaged run was tried %d times", n)
	}
	storetest.Set(t, db, "more=1")
	assert.OK(t, db.Close())
	if n := told.Load(); n != 1 {
		t.Errorf("Events.Corruption was called %d times with keys, want 1", n)
	}
}
