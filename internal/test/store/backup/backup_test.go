// Package backup tests backups, checkpoints, and the stores that are made of them.
package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

var errDisk = errors.New("the disk says no")

// TestBackup makes a full backup and increments of a store that changes in all ways, and
// restores each of them.
func TestBackup(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "values"} {
		t.Run("ValueDir="+values, func(t *testing.T) {
			storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
				db, err := brock.Open(p.RetainingOptions("store", values))
				assert.OK(t, err)
				defer db.Close()
				chain, last := storetest.MakeBackup(t, db, brock.BackupOptions{})
				streams := [][]byte{chain}
				storetest.RestoreBackups(t, p.RetainingOptions("empty", ""), storetest.ShowRetained(t, db, 0), streams...)
				w := storetest.NewWorkload(t, db, 1)
				for i, name := range []string{"first", "second", "third", "fourth"} {
					w.Write(t, 150)
					switch i {
					case 1:
						assert.OK(t, db.Compact(t.Context()))
					case 2:
						assert.OK(t, w.Keyspace.Drop(t.Context()))
						w.Keyspace = storetest.OpenKeyspace(t, db, "nuts")
						_, err := db.Reclaim(t.Context())
						assert.OK(t, err)
						w.Write(t, 50)
					}
					inc, info := storetest.MakeBackup(t, db, brock.BackupOptions{Since: last, Compress: i%2 == 0})
					assert.Equal(t, "version", info.Version, db.Version())
					streams, last = append(streams, inc), info
					into := ""
					if i > 1 {
						into = name + " values"
					}
					storetest.RestoreBackups(t, p.RetainingOptions(name, into), storetest.ShowRetained(t, db, 0), streams...)
					seen, err := brock.VerifyBackup(t.Context(), bytes.NewReader(bytes.Join(streams, nil)))
					assert.OK(t, err)
					a, err := seen.MarshalBinary()
					assert.OK(t, err)
					b, err := info.MarshalBinary()
					assert.OK(t, err)
					assert.Equal(t, "description", string(a), string(b))
				}
				full, info := storetest.MakeBackup(t, db, brock.BackupOptions{})
				again := storetest.RestoreBackups(t, p.RetainingOptions("full", ""), storetest.ShowRetained(t, db, 0), full)
				// A store that was restored goes on with increments, beside its source.
				w2 := storetest.NewWorkload(t, again, 7)
				w2.Write(t, 100)
				w.Write(t, 100)
				inc, _ := storetest.MakeBackup(t, again, brock.BackupOptions{Since: info})
				storetest.RestoreBackups(t, p.RetainingOptions("on", ""), storetest.ShowRetained(t, again, 0), full, inc)
			})
		})
	}
}

// chain is a full backup and two increments of a store in memory, with all kinds of files,
// and what the store had retained at each of them.
func chain(t *testing.T) (streams [][]byte, infos []*brock.BackupInfo, want []string) {
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.Place{FS: mem, Dir: "/"}.RetainingOptions("store", ""))
	assert.OK(t, err)
	defer db.Close()
	w := storetest.NewWorkload(t, db, 1)
	var last *brock.BackupInfo
	for i := range 3 {
		w.Write(t, 60)
		if i == 1 {
			_, err = db.Reclaim(t.Context())
			assert.OK(t, err)
		}
		s, info := storetest.MakeBackup(t, db, brock.BackupOptions{Since: last, Compress: i == 2})
		last = info
		streams, infos, want = append(streams, s), append(infos, info), append(want, storetest.ShowRetained(t, db, 0))
	}
	return streams, infos, want
}

// refusedRestore restores streams, which fails, and looks that nothing is left.
func refusedRestore(t *testing.T, what string, want error, streams ...[]byte) {
	t.Helper()
	mem := vfs.NewMem()
	_, err := brock.Restore(t.Context(), bytes.NewReader(bytes.Join(streams, nil)), brock.Options{FS: mem, Dir: "/new"})
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	if _, err := mem.Stat("/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s left something: %v", what, err)
	}
}

// TestBackupOrder restores increments without what they follow, and in other orders.
func TestBackupOrder(t *testing.T) {
	t.Parallel()
	streams, _, want := chain(t)
	full, first, second := streams[0], streams[1], streams[2]
	others, _, _ := chain(t)
	refusedRestore(t, "an increment alone", brock.ErrInvalid, first)
	refusedRestore(t, "one is missing", brock.ErrInvalid, full, second)
	refusedRestore(t, "the wrong order", brock.ErrInvalid, full, second, first)
	refusedRestore(t, "one comes twice", brock.ErrInvalid, full, first, first)
	refusedRestore(t, "two full ones", brock.ErrInvalid, full, full)
	refusedRestore(t, "an increment of another store", brock.ErrForeign, full, others[1])
	refusedRestore(t, "something else", brock.ErrForeign, bytes.Repeat([]byte("something else"), 100))
	refusedRestore(t, "a short text", brock.ErrForeign, []byte("something else"))
	refusedRestore(t, "something else behind it", brock.ErrForeign, full, bytes.Repeat([]byte("something else"), 100))
	refusedRestore(t, "nothing", brock.ErrCorrupt)
	for i, w := range want {
		storetest.RestoreBackups(t, brock.Options{FS: vfs.NewMem(), Dir: "/new", KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}}, w, streams[:i+1]...)
	}
	info, err := brock.VerifyBackup(t.Context(), bytes.NewReader(append(bytes.Clone(first), second...)))
	assert.OK(t, err)
	assert.Equal(t, "Incremental", info.Incremental, true)
}

// TestBackupDamage cuts backups, flips bits of them and moves parts: none is taken for
// whole, and nothing is restored.
func TestBackupDamage(t *testing.T) {
	t.Parallel()
	streams, _, _ := chain(t)
	all := bytes.Join(streams[:2], nil)
	step := 997
	if testing.Short() {
		step = 9973
	}
	for i := 0; i < len(all); i += step {
		if i == len(streams[0]) {
			continue
		}
		refusedRestore(t, fmt.Sprint("cut at ", i), brock.ErrCorrupt, all[:i])
		_, err := brock.VerifyBackup(t.Context(), bytes.NewReader(all[:i]))
		assert.Error(t, "VerifyBackup", err, brock.ErrCorrupt)
		flipped := bytes.Clone(all)
		flipped[i] ^= 1
		_, err = brock.VerifyBackup(t.Context(), bytes.NewReader(flipped))
		if i > 8 {
			assert.Error(t, fmt.Sprint("flipped at ", i), err, brock.ErrCorrupt)
			refusedRestore(t, fmt.Sprint("flipped at ", i), brock.ErrCorrupt, flipped)
		} else {
			assert.Error(t, "no magic", err, brock.ErrForeign)
		}
	}
	for i := range 130 { // the header
		for _, s := range [][]byte{all[i:], all[:i]} {
			if _, err := brock.VerifyBackup(t.Context(), bytes.NewReader(s)); (err == nil) != (len(s) == len(all)) {
				t.Errorf("%d bytes: %v", len(s), err)
			}
		}
	}
}

// collected is a store in memory, of which values have moved while handles still lead to
// their old places, and a store without such, both closed.
func collected(t *testing.T) (midst, closed *vfs.Mem) {
	closed = vfs.NewMem()
	faulty := faultfs.New(closed, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind != faultfs.Create || filepath.Ext(op.Path) != ".run" || midst != nil {
			return
		}
		names, err := closed.List("/store")
		if err == nil && slices.ContainsFunc(names, func(name string) bool { return filepath.Ext(name) == ".map" }) {
			midst = closed.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		}
	}})
	db, err := brock.Open(storetest.Place{FS: faulty, Dir: "/"}.TinyOptions("store", ""))
	assert.OK(t, err)
	storetest.NewWorkload(t, db, 1).Write(t, 200)
	for round := range 3 {
		for i := 0; i < 200; i += round + 1 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "value %d", i), storetest.RandomBytes(i, 2000)))
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	_, err = db.Reclaim(t.Context())
	assert.OK(t, err)
	storetest.NewWorkload(t, db, 2).Write(t, 50)
	assert.OK(t, db.Close())
	if midst == nil {
		t.Fatal("no values have moved")
	}
	return midst, closed
}

// TestBackupOfDamage flips bits of each file of a store: then there is no backup.
func TestBackupOfDamage(t *testing.T) {
	t.Parallel()
	midst, closed := collected(t)
	tried := map[string]int{}
	for _, mem := range []*vfs.Mem{midst, closed} {
		names, err := mem.List("/store")
		assert.OK(t, err)
		for _, name := range names {
			if filepath.Ext(name) == "" {
				continue
			}
			for _, at := range []int64{5, 5000, -1, -5000, removed} {
				if backupOfDamage(t, mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}), "/store/"+name, at) {
					tried[filepath.Ext(name)]++
				}
			}
		}
	}
	if tried[".run"] == 0 || tried[".val"] == 0 || tried[".map"] == 0 {
		t.Errorf("tried %v", tried)
	}
}

// removed instead of flipped.
const removed = math.MinInt64

// backupOfDamage makes a backup, and another one after a flip in a file; it returns false
// if the store has no such file any more.
func backupOfDamage(t *testing.T, mem *vfs.Mem, path string, at int64) bool {
	o := storetest.Place{FS: mem, Dir: "/"}.TinyOptions("store", "")
	o.Maintenance = brock.Maintenance{ScrubEvery: -1, IdleAfter: time.Hour}
	db := storetest.OpenExisting(t, o)
	good, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
	o.FS = vfs.NewMem()
	storetest.RestoreBackups(t, o, storetest.ShowRetained(t, db, 0), good)
	info, err := mem.Stat(path)
	if err != nil {
		return false
	}
	if at < 0 && at != removed {
		at = max(0, at+info.Size)
	}
	if at != removed {
		flipBit(t, mem, path, at)
	} else {
		assert.OK(t, mem.Remove(path))
	}
	var b bytes.Buffer
	_, err = db.Backup(t.Context(), &b, brock.BackupOptions{})
	if err == nil && filepath.Ext(path) == ".log" {
		return false // all of it was replayed, and is in runs
	}
	assert.Error(t, path+" has rotted", err, brock.ErrCorrupt)
	_, err = brock.VerifyBackup(t.Context(), &b)
	assert.Error(t, path+" has rotted: the stream", err, brock.ErrCorrupt)
	return true
}

// TestRestoreCrashes crashes before each file operation of a Restore: there is a whole
// store, or none, and another Restore says so.
func TestRestoreCrashes(t *testing.T) {
	t.Parallel()
	streams, _, want := chain(t)
	all := bytes.Join(streams, nil)
	for _, values := range []string{"", "values"} {
		mem := vfs.NewMem()
		var points []*vfs.Mem
		take := func() {
			for mode := range vfs.Chaos + 1 {
				points = append(points, mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(len(points))}))
			}
		}
		faulty := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
			if op.Kind&(faultfs.Changes|faultfs.Syncs|faultfs.Lock) != 0 {
				take()
			}
		}})
		options := func(fsys vfs.FS) brock.Options {
			return storetest.Place{FS: fsys, Dir: "/"}.RetainingOptions("new", values)
		}
		_, err := brock.Restore(t.Context(), bytes.NewReader(all), options(faulty))
		assert.OK(t, err)
		take()
		whole, again := 0, 0
		for i, c := range points {
			last := i >= len(points)-int(vfs.Chaos)-1
			if testing.Short() && i%5 != 0 && !last {
				continue
			}
			o := options(c)
			o.MustExist = true
			db, err := brock.Open(o)
			if err == nil {
				whole++
				assert.SameText(t, fmt.Sprint("crash ", i), storetest.ShowRetained(t, db, 0), want[2])
				assert.OK(t, db.Close())
				continue
			}
			if last || !errors.Is(err, brock.ErrNotExist) && !errors.Is(err, brock.ErrCorrupt) {
				t.Errorf("crash %d: %v", i, err)
			}
			_, err = brock.Restore(t.Context(), bytes.NewReader(all), options(c))
			if err == nil {
				again++
			} else if !errors.Is(err, brock.ErrExist) {
				t.Errorf("Restore after crash %d: %v", i, err)
			}
		}
		if whole == 0 || again == 0 {
			t.Errorf("%d crashes, %d after SUPER was written, %d in an empty directory", len(points), whole, again)
		}
	}
}

// TestRestoreFails has each file operation of a Restore fail: nothing is left.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	streams, _, want := chain(t)
	all := bytes.Join(streams, nil)
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs | faultfs.Lock | faultfs.Open, Nth: n, Err: errDisk})
		o := storetest.Place{FS: faulty, Dir: "/"}.RetainingOptions("new", "values")
		_, err := brock.Restore(t.Context(), bytes.NewReader(all), o)
		if err == nil {
			o.FS = mem
			assert.SameText(t, "restored", storetest.ShowRetained(t, storetest.OpenExisting(t, o), 0), want[2])
			if n < 50 {
				t.Errorf("only %d calls have failed", n)
			}
			return
		}
		assert.Error(t, fmt.Sprint("call ", n), err, errDisk)
		for _, dir := range []string{"/new", "/values"} {
			if names, err := mem.List(dir); err == nil && len(names) > 0 {
				t.Errorf("call %d: %s has %v", n, dir, names)
			}
		}
	}
}

// TestRestoreRefuses restores where something is, and with options that make no sense.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		streams, _, _ := chain(t)
		restore := func(o brock.Options) error {
			_, err := brock.Restore(t.Context(), bytes.NewReader(streams[0]), o)
			return err
		}
		assert.OK(t, p.FS.MkdirAll(p.Join("used")))
		storetest.WriteFile(t, p.FS, p.Join("used/file"), "x")
		before := p.ShowFiles(t, "used")
		assert.Error(t, "a used directory", restore(brock.Options{FS: p.FS, Dir: p.Join("used")}), brock.ErrExist)
		assert.Error(t, "a used ValueDir", restore(brock.Options{FS: p.FS, Dir: p.Join("new"), ValueDir: p.Join("used")}), brock.ErrExist)
		assert.Equal(t, "the directory", p.ShowFiles(t, "used"), before)
		assert.OK(t, p.FS.MkdirAll(p.Join("empty")))
		assert.OK(t, restore(brock.Options{FS: p.FS, Dir: p.Join("empty")}))
		before = p.ShowFiles(t, "empty")
		assert.Error(t, "a store", restore(brock.Options{FS: p.FS, Dir: p.Join("empty")}), brock.ErrExist)
		assert.Equal(t, "the store", p.ShowFiles(t, "empty"), before)
		assert.Error(t, "no directory", restore(brock.Options{FS: p.FS}), brock.ErrInvalid)
		assert.Error(t, "InMemory", restore(brock.Options{InMemory: true}), brock.ErrInvalid)
		ended, end := context.WithCancel(t.Context())
		end()
		_, err := brock.Restore(ended, bytes.NewReader(streams[0]), brock.Options{FS: p.FS, Dir: p.Join("new")})
		assert.Error(t, "an ended context", err, context.Canceled)
		_, err = p.FS.Stat(p.Join("new"))
		assert.Error(t, "what it leaves", err, fs.ErrNotExist)
	})
}

// TestBackupRefuses asks for backups that can't be.
func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	db, other := storetest.Open(t, brock.Options{}), storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1")
	storetest.Set(t, other, "a=1")
	backup := func(db *brock.DB, ctx context.Context, w io.Writer, o brock.BackupOptions) error {
		_, err := db.Backup(ctx, w, o)
		return err
	}
	_, info := storetest.MakeBackup(t, other, brock.BackupOptions{})
	assert.Error(t, "another store's", backup(db, t.Context(), io.Discard, brock.BackupOptions{Since: info}), brock.ErrForeign)
	assert.Error(t, "no backup", backup(db, t.Context(), io.Discard, brock.BackupOptions{Since: new(brock.BackupInfo)}), brock.ErrInvalid)
	assert.Error(t, "no writer", backup(db, t.Context(), nil, brock.BackupOptions{}), brock.ErrInvalid)
	ended, end := context.WithCancel(t.Context())
	end()
	assert.Error(t, "an ended context", backup(db, ended, io.Discard, brock.BackupOptions{}), context.Canceled)
	for n := range 5 {
		assert.Error(t, "a writer that fails", backup(db, t.Context(), &fullWriter{n * 100}, brock.BackupOptions{}), errDisk)
	}
	var done []brock.BackupProgress
	assert.OK(t, backup(db, t.Context(), io.Discard, brock.BackupOptions{Progress: func(p brock.BackupProgress) { done = append(done, p) }}))
	if n := len(done); n < 2 || done[0].Bytes != 0 || done[0].Total == 0 || done[n-1].Bytes != done[n-1].Total {
		t.Errorf("progress %v", done)
	}
	assert.OK(t, other.Close())
	assert.Error(t, "a closed store", backup(other, t.Context(), io.Discard, brock.BackupOptions{}), brock.ErrClosed)
}

// fullWriter takes a number of bytes, then returns an error.
type fullWriter struct{ room int }

func (w *fullWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.room -= n
	if n < len(p) {
		return n, errDisk
	}
	return n, nil
}

// TestBackupBesideWriters makes backups and increments while others write. Each is the
// store as of its version.
func TestBackupBesideWriters(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	p := storetest.Place{FS: mem, Dir: "/"}
	db, err := brock.Open(p.RetainingOptions("store", ""))
	assert.OK(t, err)
	defer db.Close()
	storetest.NewWorkload(t, db, 1).Write(t, 50)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range uint64(3) {
		w := storetest.NewWorkload(t, db, i+2)
		writers.Go(func() {
			for n := 0; n < 300; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := w.WriteOnce(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var streams [][]byte
	var last *brock.BackupInfo
	for i := range 4 {
		before := db.Version()
		s, info := storetest.MakeBackup(t, db, brock.BackupOptions{Since: last})
		if info.Version < before || info.Version > db.Version() {
			t.Errorf("version %d, not between %d and %d", info.Version, before, db.Version())
		}
		streams, last = append(streams, s), info
		storetest.RestoreBackups(t, p.RetainingOptions(fmt.Sprint("copy ", i), ""), storetest.ShowRetained(t, db, info.Version), streams...)
	}
	close(stop)
	writers.Wait()
}

// TestBackupStopsNobody replaces and removes all that a store has while a backup of it
// waits for its writer. The backup has what there was.
func TestBackupStopsNobody(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		db, err := brock.Open(p.TinyOptions("store", ""))
		assert.OK(t, err)
		defer db.Close()
		fill := func(round int) {
			for i := range 60 {
				assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), storetest.RandomBytes(round*1000+i, 50_000)))
			}
		}
		fill(1)
		want := storetest.ShowRetained(t, db, 0)
		w := &heldWriter{reached: make(chan struct{}), goOn: make(chan struct{})}
		done := make(chan error)
		go func() {
			_, err := db.Backup(t.Context(), w, brock.BackupOptions{})
			done <- err
		}()
		<-w.reached
		for round := range 3 {
			fill(round + 2)
			assert.OK(t, db.Compact(t.Context()))
		}
		assert.OK(t, db.DeleteRange(nil, nil))
		assert.OK(t, db.Compact(t.Context()))
		_, err = db.Reclaim(t.Context())
		assert.OK(t, err)
		close(w.goOn)
		assert.OK(t, <-done)
		storetest.RestoreBackups(t, p.TinyOptions("copy", ""), want, w.Bytes())
	})
}

// TestCloseEndsABackup closes the store while a backup waits for its writer.
func TestCloseEndsABackup(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, brock.Options{})
	for i := range 300 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), storetest.RandomBytes(i, 100_000)))
	}
	w := &heldWriter{reached: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan error)
	go func() {
		_, err := db.Backup(t.Context(), w, brock.BackupOptions{})
		done <- err
	}()
	<-w.reached
	assert.OK(t, db.Close())
	close(w.goOn)
	assert.Error(t, "a backup of a store that was closed", <-done, brock.ErrClosed)
	_, err := brock.VerifyBackup(t.Context(), &w.Buffer)
	assert.Error(t, "the stream", err, brock.ErrCorrupt)
}

// heldWriter waits once it has a megabyte.
type heldWriter struct {
	bytes.Buffer
	reached, goOn chan struct{}
	held          bool
}

func (w *heldWriter) Write(p []byte) (int, error) {
	if w.Len() > 1<<20 && !w.held {
		w.held = true
		close(w.reached)
		<-w.goOn
	}
	return w.Buffer.Write(p)
}
