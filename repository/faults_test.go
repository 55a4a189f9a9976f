package repository_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

var errStore = errors.New("the store is away")

// failing makes the nth call of a store fail, or be done and fail nevertheless.
func failing(s *memStore, nth int, done bool) (met func() bool) {
	n := 0
	s.fault = func(string, string) (error, bool) {
		if n++; n == nth {
			return errStore, done
		}
		return nil, true
	}
	return func() bool {
		s.fault = nil
		return n >= nth
	}
}

// TestFaultsOfTheStore lets each call of a store fail in a backup and in a prune. The
// repository stays correct, and the next call succeeds.
func TestFaultsOfTheStore(t *testing.T) {
	db := open(t, vfs.NewMem(), "store")
	s := newMemStore()
	for nth := 1; ; nth++ {
		change(t, db, uint64(nth), 20)
		before, _ := repository.List(t.Context(), s)
		met := failing(s, nth, nth%2 == 0)
		done, err := repository.Backup(t.Context(), db, s, repository.Options{})
		if !met() {
			break
		}
		if !errors.Is(err, errStore) {
			t.Fatalf("call %d fails, and the backup returns %v", nth, err)
		}
		verified(t, s)
		if after, err := repository.List(t.Context(), s); err != nil || done.ID != "" || len(after) > len(before)+1 || len(after) > len(before) && nth%2 != 0 {
			t.Fatalf("call %d fails: %d backups have become %d, %v", nth, len(before), len(after), err)
		}
		backup(t, db, s)
		if restored(t, s, "") != contents(t, db) {
			t.Fatal("the next backup has other contents")
		}
	}
}

// TestFaultsOfPrune lets each call of a store fail in a prune. The backups that stay can be
// restored, and the prunes that follow leave nothing else.
func TestFaultsOfPrune(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	for i := range 3 {
		change(t, db, uint64(i), 20)
		backup(t, db, s)
	}
	prune(t, s, repository.Keep{Last: 2}, repository.PruneOptions{})
	change(t, db, 3, 20)
	last := backup(t, db, s)
	want := contents(t, db)
	base := s
	for nth := 1; ; nth++ {
		s := base.clone()
		s.pass(2 * time.Hour)
		met := failing(s, nth, nth%2 == 0)
		_, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1}, repository.PruneOptions{NoBackups: nth%3 == 0})
		if !met() {
			break
		}
		if !errors.Is(err, errStore) {
			t.Fatalf("call %d fails, and the prune returns %v", nth, err)
		}
		verified(t, s)
		for range 3 {
			prune(t, s, repository.Keep{Last: 1}, repository.PruneOptions{})
			s.pass(8 * 24 * time.Hour)
		}
		if v := verified(t, s); v.Backups != 1 || v.Unnamed != 0 || len(s.names("unused/")) != 0 {
			t.Fatalf("call %d fails: in the end there is %+v, and %q", nth, v, s.names("unused/"))
		}
		if restored(t, s, last.ID) != want {
			t.Fatalf("call %d fails: the last backup has other contents", nth)
		}
	}
}

// TestFaultsOfRestore lets each call fail: nothing is left, and nothing opens.
func TestFaultsOfRestore(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	change(t, db, 1, 50)
	backup(t, db, s)
	for nth := 1; ; nth++ {
		fsys := vfs.NewMem()
		met := failing(s, nth, false)
		_, err := repository.Restore(t.Context(), s, "", "a/b", repository.RestoreOptions{FS: fsys})
		if !met() {
			break
		}
		if _, stat := fsys.Stat("a/b"); !errors.Is(err, errStore) || stat == nil {
			t.Fatalf("call %d of the store fails: %v, and the directory is there: %v", nth, err, stat == nil)
		}
	}
	for nth := 1; ; nth++ {
		fsys := faultfs.New(vfs.NewMem(), faultfs.Options{})
		fsys.Inject(faultfs.Fault{Nth: nth})
		_, err := repository.Restore(t.Context(), s, "", "a/b", repository.RestoreOptions{FS: fsys})
		if err == nil {
			break
		}
		if names, _ := fsys.List("a/b"); slices.Contains(names, "SUPER") {
			t.Fatalf("call %d of the file system fails: %v, and there is a store of %q", nth, err, names)
		}
	}
}

// TestRestoreCrashes crashes before each call of the file system: there is no store, or the
// whole one.
func TestRestoreCrashes(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	change(t, db, 1, 50)
	backup(t, db, s)
	want := contents(t, db)
	disk := vfs.NewMem()
	stores := 0
	fsys := faultfs.New(disk, faultfs.Options{Before: func(op faultfs.Op) {
		for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Chaos} {
			after := disk.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(op.N)})
			db, err := brock.Open(brock.Options{Dir: "a", FS: after, MustExist: true})
			if err != nil {
				if info, _ := after.Stat("a/SUPER"); info.Size > 0 && mode != vfs.Chaos {
					t.Errorf("a crash (%v) before %v leaves a store that can't be opened: %v", mode, op, err)
				}
				continue
			}
			stores++
			if contents(t, db) != want {
				t.Errorf("a crash (%v) before %v leaves a store with other contents", mode, op)
			}
			_ = db.Close()
		}
	}})
	if _, err := repository.Restore(t.Context(), s, "", "a", repository.RestoreOptions{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	if stores == 0 {
		t.Error("no crash has left a store")
	}
	after := disk.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	again, err := brock.Open(brock.Options{Dir: "a", FS: after, MustExist: true})
	if err != nil {
		t.Fatalf("the store is not durable: %v", err)
	}
	defer again.Close()
	if contents(t, again) != want {
		t.Error("the durable store has other contents")
	}
}

// TestDirectoryCrashes crashes before each call of the file system of a repository in a
// directory, in a backup and a prune. The backups that were made before can be restored.
func TestDirectoryCrashes(t *testing.T) {
	db := open(t, vfs.NewMem(), "store")
	disk := vfs.NewMem()
	backups := 0
	watched := faultfs.New(disk, faultfs.Options{Before: func(op faultfs.Op) {
		for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Chaos} {
			after := repository.Dir(disk.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(op.N)}), "r")
			v, err := repository.Verify(t.Context(), after, repository.VerifyOptions{}, nil)
			if err != nil || v.Backups < backups {
				t.Fatalf("a crash (%v) before %v leaves %+v of %d backups, %v", mode, op, v, backups, err)
			}
		}
	}})
	s := repository.Dir(watched, "r")
	for i := range 3 {
		change(t, db, uint64(i), 20)
		backup(t, db, s)
		backups++
	}
	backups = 1
	prune(t, s, repository.Keep{Last: 1}, repository.PruneOptions{NoBackups: true})
}

// TestDirectoryFaults lets each call of the file system of a repository in a directory fail.
func TestDirectoryFaults(t *testing.T) {
	db, disk := open(t, vfs.NewMem(), "store"), vfs.NewMem()
	change(t, db, 1, 20)
	backup(t, db, repository.Dir(disk, "r"))
	change(t, db, 2, 20)
	want := contents(t, db)
	for nth := 1; ; nth++ {
		fsys := faultfs.New(disk.CrashClone(vfs.CrashOptions{Mode: vfs.All}), faultfs.Options{})
		s := repository.Dir(fsys, "r")
		fsys.Inject(faultfs.Fault{Nth: nth, Short: true, Err: faultfs.ErrNoSpace})
		_, err := repository.Backup(t.Context(), db, s, repository.Options{})
		fsys.Heal()
		if fsys.Struck() == 0 {
			break
		}
		if v := verified(t, s); v.Backups == 0 || err == nil && v.Backups != 2 {
			t.Fatalf("call %d fails: %v, and there are %d backups", nth, err, v.Backups)
		}
		if backup(t, db, s); restored(t, s, "") != want {
			t.Fatalf("call %d fails: the next backup has other contents", nth)
		}
	}
}

// TestKilledBeforeTheNameIsDurable kills a backup at each call of the file system. What the next
// one finds of it is durable when that returns, also if it has nothing to store itself.
func TestKilledBeforeTheNameIsDurable(t *testing.T) {
	disk := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: "store", FS: vfs.NewMem(), Now: func() time.Time { return time.Unix(1700000000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	change(t, db, 1, 20)
	backup(t, db, repository.Dir(disk, "r"))
	change(t, db, 2, 20)
	want := contents(t, db)
	empty := 0
	for nth := 1; ; nth++ {
		after := disk.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		fsys := faultfs.New(after, faultfs.Options{})
		// With this error, a sync of a directory has lost nothing.
		fsys.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth, Times: faultfs.Always, Err: syscall.EMFILE})
		if _, err := repository.Backup(t.Context(), db, repository.Dir(fsys, "r"), repository.Options{}); err == nil {
			break
		}
		if backup(t, db, repository.Dir(after, "r")).PutFiles == 0 {
			empty++
		}
		s := repository.Dir(after.CrashClone(vfs.CrashOptions{}), "r")
		if v := verified(t, s); v.Backups < 2 || restored(t, s, "") != want {
			t.Fatalf("killed at call %d: %d backups, or other contents", nth, v.Backups)
		}
	}
	if empty == 0 {
		t.Error("each second backup had something to store")
	}
}

// TestFaultsOfTheSource lets each call of the store's file system fail: the repository stays
// correct, and the next backup finds what was left.
func TestFaultsOfTheSource(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db, s := open(t, fsys, "store"), newMemStore()
	change(t, db, 1, 50)
	kinds := faultfs.Open | faultfs.Read | faultfs.Stat | faultfs.List | faultfs.Link | faultfs.Remove | faultfs.Lock | faultfs.MkdirAll
	failed := 0
	for nth := 1; ; nth++ {
		fsys.Inject(faultfs.Fault{Kinds: kinds, Nth: nth})
		_, err := repository.Backup(t.Context(), db, s, repository.Options{})
		fsys.Heal()
		struck := fsys.Struck()
		if err == nil && struck == failed {
			break
		}
		failed = struck
		verified(t, s)
	}
	backup(t, db, s)
	if names, err := fsys.List("store.backup-scratch"); err == nil {
		t.Errorf("the scratch directory has %q", names)
	}
}

// TestCutUploads fills a directory with what uploads leave that are cut: nobody takes them
// for objects.
func TestCutUploads(t *testing.T) {
	disk := vfs.NewMem()
	db, s := open(t, vfs.NewMem(), "store"), repository.Dir(disk, "r")
	change(t, db, 1, 50)
	backup(t, db, s)
	for _, kind := range []string{"objects", "backups", "unused"} {
		if err := disk.MkdirAll(filepath.Join("r", kind)); err != nil {
			t.Fatal(err)
		}
		names, err := disk.List(filepath.Join("r", kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(names, "x") {
			f, err := disk.Create(filepath.Join("r", kind, name+"-abc.part"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte(name), 0); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
	}
	backup(t, db, s)
	if v := verified(t, s); v.Backups != 2 || v.Unnamed != 0 {
		t.Errorf("verified: %+v", v)
	}
	prune(t, s, repository.Keep{Last: 1}, repository.PruneOptions{NoBackups: true})
	verified(t, s)
	err := s.List(t.Context(), "", func(o repository.Object) error {
		if strings.HasSuffix(o.Name, ".part") {
			return fmt.Errorf("%s is left", o.Name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
