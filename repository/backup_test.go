package repository_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

// TestRestoreEqualsSource makes backups of a store that changes, in a directory, and
// restores each of them.
func TestRestoreEqualsSource(t *testing.T) {
	dir := t.TempDir()
	db, s := open(t, nil, dir+"/store"), repository.Dir(nil, dir+"/deep/repository")
	if list, err := repository.List(t.Context(), s); err != nil || len(list) != 0 {
		t.Fatalf("an empty repository lists %v, %v", list, err)
	}
	want := map[string]string{}
	for i := range 5 {
		change(t, db, uint64(i), 300)
		if i == 3 {
			if err := db.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		done := backup(t, db, s)
		want[done.ID] = contents(t, db)
		if done.Version != db.Version() || done.Files == 0 || done.PutFiles == 0 || done.PutBytes > done.Bytes {
			t.Errorf("backup %d: %+v", i, done)
		}
		if _, err := os.Stat(dir + "/store.backup-scratch"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the scratch directory is still there: %v", err)
		}
	}
	list, err := repository.List(t.Context(), s)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d backups, %v", len(list), err)
	}
	for i, info := range list {
		if i > 0 && info.Version <= list[i-1].Version {
			t.Errorf("backups are not in order: %+v", list)
		}
		if got := restored(t, s, info.ID); got != want[info.ID] {
			t.Errorf("backup %d: the restored store has other contents", i)
		}
	}
	if restored(t, s, "") != want[list[len(list)-1].ID] {
		t.Error("without an id, it is not the newest backup that is restored")
	}
	if v := verified(t, s); v.Backups != 5 || v.Unnamed != 0 {
		t.Errorf("verified: %+v", v)
	}
	_, err = repository.Restore(t.Context(), s, "", dir+"/store", repository.RestoreOptions{})
	if !errors.Is(err, brock.ErrExist) {
		t.Errorf("restore over a store: %v", err)
	}
}

// TestHundredthBackup counts the bytes of a hundred backups between which little changes.
func TestHundredthBackup(t *testing.T) {
	db, s := open(t, unsynced{vfs.OS()}, t.TempDir()+"/store"), newMemStore()
	for i := range 10 {
		change(t, db, uint64(i), 2000)
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := backup(t, db, s)
	if first.PutBytes != first.Bytes {
		t.Errorf("the first backup has put %d of %d bytes", first.PutBytes, first.Bytes)
	}
	n := 100
	if testing.Short() {
		n = 10
	}
	for i := range n {
		if err := db.Set([]byte("counter"), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		before := s.put
		done := backup(t, db, s)
		// These are the run of one pair, manifest, SUPER and the index, sometimes a larger run
		// that a compaction has made of small ones.
		if put := s.put - before; put > first.Bytes/10 {
			t.Errorf("backup %d has put %d bytes in %d files, the first one %d", i, put, done.PutFiles, first.PutBytes)
		}
		if done.ReadBytes > first.Bytes/10 {
			t.Errorf("backup %d has read %d of %d bytes", i, done.ReadBytes, done.Bytes)
		}
	}
	if got := restored(t, s, ""); got != contents(t, db) {
		t.Error("the last backup has other contents")
	}
	if put := s.put - first.PutBytes; put > int64(n)*first.Bytes/100 {
		t.Errorf("%d backups have put %d bytes, the first one %d", n, put, first.PutBytes)
	}
	t.Logf("the first backup has put %d bytes, %d more ones %d", first.PutBytes, n, s.put-first.PutBytes)
}

// TestCopiesWithOneUUID backs up a store and a checkpoint of it that is a store now. They
// give the same numbers to different files.
func TestCopiesWithOneUUID(t *testing.T) {
	dir := t.TempDir()
	one, s := open(t, unsynced{vfs.OS()}, dir+"/one"), newMemStore()
	change(t, one, 1, 500)
	if err := one.Checkpoint(t.Context(), dir+"/two"); err != nil {
		t.Fatal(err)
	}
	two := open(t, unsynced{vfs.OS()}, dir+"/two")
	for i := range 4 {
		change(t, one, uint64(10+i), 500)
		change(t, two, uint64(20+i), 500)
		a, b := backup(t, one, s), backup(t, two, s)
		if a.Store != b.Store {
			t.Fatal("the checkpoint has another uuid")
		}
		if restored(t, s, a.ID) != contents(t, one) || restored(t, s, b.ID) != contents(t, two) {
			t.Fatalf("round %d: a backup has files of the other store", i)
		}
	}
}

// unsynced is a file system whose syncs do nothing, for tests that don't crash.
type unsynced struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) SyncData() error { return nil }

type unsyncedDirs struct {
	unsynced
	io.Closer
}

func wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (u unsynced) SyncDir(string) error                     { return nil }
func (u unsynced) Create(n string) (vfs.File, error)        { return wrap(u.FS.Create(n)) }
func (u unsynced) OpenReadWrite(n string) (vfs.File, error) { return wrap(u.FS.OpenReadWrite(n)) }
func (u unsynced) OpenDirs(dirs ...string) (vfs.Dirs, error) {
	d, err := u.FS.OpenDirs(dirs...)
	if err != nil {
		return nil, err
	}
	return unsyncedDirs{unsynced{d}, d}, nil
}

// TestClockJumpsBack: the newest backup is the last one that was made, though a clock that was
// ahead gave the one before a later time. So Prune keeps it, and Restore finds it.
func TestClockJumpsBack(t *testing.T) {
	db, s := open(t, unsynced{vfs.OS()}, t.TempDir()+"/store"), newMemStore()
	change(t, db, 1, 100)
	first := backup(t, db, s)
	later := first.Time.Add(5 * time.Hour)
	was, is := []byte(first.Time.Format(time.RFC3339Nano)), []byte(later.Format(time.RFC3339Nano))
	_, body, _ := bytes.Cut(s.objects["backups/"+first.ID], []byte("\n"))
	body = bytes.Replace(body, was, is, 1)
	name := "backups/" + first.ID[:9] + later.UTC().Format("20060102T150405.000Z") + first.ID[strings.LastIndexByte(first.ID, '-'):]
	s.objects[name] = append(fmt.Appendf(nil, "brock-backup 1 %x\n", sha256.Sum256(body)), body...)
	if list, err := repository.List(t.Context(), s); err != nil || len(list) != 2 || !list[1].Time.Equal(later) {
		t.Fatalf("%+v, %v", list, err)
	}
	for i := range 3 {
		change(t, db, uint64(2+i), 100)
		done := backup(t, db, s)
		if _, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1}, repository.PruneOptions{}); err != nil {
			t.Fatal(err)
		}
		list, err := repository.List(t.Context(), s)
		if err != nil || len(list) != 1 || list[0].ID != done.ID || list[0].Version != db.Version() {
			t.Fatalf("after Prune: %+v, %v; want %s", list, err, done.ID)
		}
		// By this the rules of Keep know what the clock said.
		var index struct{ Files []struct{ Modified int64 } }
		_, body, _ := bytes.Cut(s.objects["backups/"+done.ID], []byte("\n"))
		if err := json.Unmarshal(body, &index); err != nil {
			t.Fatal(err)
		}
		if super := time.Unix(0, index.Files[len(index.Files)-1].Modified); super.Before(first.Time) || !super.Before(later) {
			t.Errorf("SUPER is of %v, the first backup of %v", super, first.Time)
		}
	}
}
