package repository_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

// TestBackupBesideWriters backs up a store in which two keys of each writer always have the
// same value, and counts that what was acknowledged before a backup is in it.
func TestBackupBesideWriters(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	var acknowledged [3]atomic.Uint64
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for w := range acknowledged {
		writers.Go(func() {
			for i := uint64(1); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				value := binary.BigEndian.AppendUint64(make([]byte, 600), i)
				err := db.Update(func(txn *brock.Txn) error {
					return errors.Join(txn.Set(fmt.Append(nil, "a", w), value), txn.Set(fmt.Append(nil, "b", w), value[600:]))
				})
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged[w].Store(i)
			}
		})
	}
	for range 8 {
		var before [3]uint64
		for w := range before {
			before[w] = acknowledged[w].Load()
		}
		done := backup(t, db, s)
		fsys := vfs.NewMem()
		if _, err := repository.Restore(t.Context(), s, done.ID, "copy", repository.RestoreOptions{FS: fsys}); err != nil {
			t.Fatal(err)
		}
		copied := open(t, fsys, "copy")
		for w := range before {
			a, err := copied.Get(fmt.Append(nil, "a", w))
			if errors.Is(err, brock.ErrKeyNotFound) && before[w] == 0 {
				continue
			}
			b, err2 := copied.Get(fmt.Append(nil, "b", w))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			x, y := binary.BigEndian.Uint64(a[600:]), binary.BigEndian.Uint64(b)
			if x != y || x < before[w] {
				t.Errorf("writer %d: %d and %d are in the backup, %d was acknowledged before", w, x, y, before[w])
			}
		}
		if copied.Version() != done.Version {
			t.Errorf("version %d was restored, and the backup says %d", copied.Version(), done.Version)
		}
		_ = copied.Close()
	}
	close(stop)
	writers.Wait()
}

// TestBackupsAtOnce backs up two stores, one of them twice, into one repository, and prunes
// it, all at the same time.
func TestBackupsAtOnce(t *testing.T) {
	one, two, s := open(t, vfs.NewMem(), "store"), open(t, vfs.NewMem(), "store"), repository.Dir(vfs.NewMem(), "r")
	change(t, one, 1, 50)
	change(t, two, 2, 50)
	var all sync.WaitGroup
	for i, db := range []*brock.DB{one, one, two} {
		all.Go(func() {
			for j := range 5 {
				if i > 0 {
					change(t, db, uint64(10*i+j), 20)
				}
				if _, err := repository.Backup(t.Context(), db, s, repository.Options{Scratch: fmt.Sprint("scratch", i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, err := repository.Prune(t.Context(), s, repository.Keep{Last: 3}, repository.PruneOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if v := verified(t, s); v.Backups < 6 {
		t.Errorf("verified: %+v", v)
	}
}

// TestScratch looks at the directory of the checkpoint: what a backup that was killed has
// left there goes, only one backup may use it, and what is not ours stays.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	db, s := open(t, nil, dir+"/store"), newMemStore()
	change(t, db, 1, 50)
	if err := errors.Join(os.Mkdir(dir+"/store.backup-scratch", 0o700), db.Checkpoint(t.Context(), dir+"/store.backup-scratch/backup-in-progress")); err != nil {
		t.Fatal(err)
	}
	change(t, db, 2, 50)
	// Without the lock that a backup makes first, it is somebody's store.
	if _, err := repository.Backup(t.Context(), db, s, repository.Options{}); !errors.Is(err, brock.ErrForeign) {
		t.Errorf("with a store in the scratch directory: %v", err)
	}
	if err := os.WriteFile(dir+"/store.backup-scratch/LOCK", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := false
	s.fault = func(op, _ string) (error, bool) {
		if op == "put" && !inside {
			inside = true
			if _, err := repository.Backup(t.Context(), db, s, repository.Options{}); !errors.Is(err, brock.ErrLocked) {
				t.Errorf("another backup: %v", err)
			}
		}
		return nil, true
	}
	backup(t, db, s)
	if restored(t, s, "") != contents(t, db) {
		t.Error("the backup has other contents")
	}
	if _, err := os.Stat(dir + "/store.backup-scratch"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the scratch directory is still there: %v", err)
	}
	foreign := dir + "/store.backup-scratch/backup-in-progress/letter.txt"
	if err := errors.Join(os.MkdirAll(dir+"/store.backup-scratch/backup-in-progress", 0o700), os.WriteFile(dir+"/store.backup-scratch/LOCK", nil, 0o600), os.WriteFile(foreign, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Backup(t.Context(), db, s, repository.Options{}); !errors.Is(err, brock.ErrForeign) {
		t.Errorf("with a file of another program in the scratch directory: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
	// A store is no scratch directory.
	change(t, open(t, nil, dir+"/mine"), 4, 20)
	if _, err := repository.Backup(t.Context(), db, s, repository.Options{Scratch: dir + "/mine"}); !errors.Is(err, brock.ErrForeign) {
		t.Errorf("a store as the scratch directory: %v", err)
	}
	apart, err := brock.Open(brock.Options{Dir: dir + "/keys", ValueDir: dir + "/values"})
	if err != nil {
		t.Fatal(err)
	}
	defer apart.Close()
	change(t, apart, 5, 50)
	if done := backup(t, apart, s); restored(t, s, done.ID) != contents(t, apart) {
		t.Error("the backup of the store with a value directory has other contents")
	}
	memory, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	change(t, memory, 3, 50)
	if _, err := repository.Backup(t.Context(), memory, s, repository.Options{}); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("in memory, without a scratch directory: %v", err)
	}
	done, err := repository.Backup(t.Context(), memory, s, repository.Options{Scratch: dir + "/scratch"})
	if err != nil {
		t.Fatal(err)
	}
	if restored(t, s, done.ID) != contents(t, memory) {
		t.Error("the backup of the store in memory has other contents")
	}
}
