package repository_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

// TestDamagedObjects flips, cuts, lengthens and removes each object. Verify finds it, Restore
// returns an error and leaves nothing, and the next backup mends what is deleted.
func TestDamagedObjects(t *testing.T) {
	db, base := open(t, vfs.NewMem(), "store"), newMemStore()
	change(t, db, 1, 50)
	id := backup(t, db, base).ID
	want := contents(t, db)
	for _, name := range base.names("") {
		for how, damage := range map[string]func(p []byte) []byte{
			"flipped": func(p []byte) []byte { p[len(p)/2] ^= 4; return p },
			"cut":     func(p []byte) []byte { return p[:len(p)-1] },
			"longer":  func(p []byte) []byte { return append(p, 0) },
			"empty":   func([]byte) []byte { return []byte{} },
			"missing": nil,
		} {
			s := base.clone()
			if damage == nil {
				delete(s.objects, name)
			} else {
				s.objects[name] = damage(bytes.Clone(s.objects[name]))
			}
			isIndex := strings.HasPrefix(name, "backups/")
			found := 0
			_, err := repository.Verify(t.Context(), s, repository.VerifyOptions{}, func(c *brock.CorruptionError) {
				found++
				if c.File != name {
					t.Errorf("%s is %s, and Verify names %s", name, how, c.File)
				}
			})
			if wrong := found != 1 || !errors.Is(err, brock.ErrCorrupt); wrong != (isIndex && damage == nil) {
				t.Errorf("%s is %s: %d problems, %v", name, how, found, err)
			}
			_, quick := repository.Verify(t.Context(), s, repository.VerifyOptions{Quick: true}, nil)
			if errors.Is(quick, brock.ErrCorrupt) == (how == "flipped" && !isIndex || isIndex && damage == nil) {
				t.Errorf("%s is %s, quickly verified: %v", name, how, quick)
			}
			fsys := vfs.NewMem()
			_, err = repository.Restore(t.Context(), s, id, "dir", repository.RestoreOptions{FS: fsys})
			if !errors.Is(err, brock.ErrCorrupt) && !errors.Is(err, repository.ErrNoBackup) {
				t.Errorf("%s is %s: restored, %v", name, how, err)
			}
			if _, err := fsys.Stat("dir"); err == nil {
				t.Errorf("%s is %s: the restored directory is still there", name, how)
			}
			if isIndex {
				continue
			}
			delete(s.objects, name)
			if done := backup(t, db, s); restored(t, s, done.ID) != want {
				t.Errorf("%s was %s: the next backup has other contents", name, how)
			}
		}
	}
}

// TestDamageOfTheSource backs up a store of which one page of a file has rotted.
func TestDamageOfTheSource(t *testing.T) {
	dir := t.TempDir()
	db, s := open(t, nil, dir+"/store"), newMemStore()
	change(t, db, 1, 200)
	backup(t, db, s)
	change(t, db, 2, 200)
	runs, err := filepath.Glob(dir + "/store/*.run")
	values, err2 := filepath.Glob(dir + "/store/*.val")
	if err := errors.Join(err, err2); err != nil || len(runs) < 2 || len(values) < 2 {
		t.Fatalf("%q, %q, %v", runs, values, err)
	}
	damaged := 0
	for _, file := range append(runs, values...) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		// In a page of entries, or in a record.
		at := min(5000, info.Size()/2)
		_, err = f.ReadAt(b[:], at)
		_, err2 := f.WriteAt([]byte{b[0] ^ 16}, at)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		before := s.names("")
		_, err = repository.Backup(t.Context(), db, s, repository.Options{})
		var c *brock.CorruptionError
		switch {
		case errors.As(err, &c):
			damaged++
			if c.File != filepath.Base(file) {
				t.Errorf("%s is damaged, and the backup names %s", file, c.File)
			}
		case err != nil:
			t.Error(err)
		}
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err == nil && len(before) == len(s.names("")) {
			t.Error("neither a backup nor an error")
		}
	}
	if damaged == 0 {
		t.Error("no damage was found")
	}
	backup(t, db, s)
	if restored(t, s, "") != contents(t, db) {
		t.Error("the backup has other contents")
	}
}

// TestDamageBetweenReads lets one read of a file of the checkpoint return a flipped bit, at
// each place in the course of a backup: there is an error, or a right backup.
func TestDamageBetweenReads(t *testing.T) {
	disk := vfs.NewMem()
	fsys := faultfs.New(disk, faultfs.Options{})
	var reads, strike atomic.Int64
	flipping := flipped{fsys, func(name string, p []byte) {
		if strings.Contains(name, "in-progress") && reads.Add(1) == strike.Load() && len(p) > 0 {
			p[int(binary.LittleEndian.Uint16(append(p[:min(1, len(p)):1], 0)))%len(p)] ^= 1
		}
	}}
	db := open(t, flipping, "store")
	change(t, db, 1, 60)
	want := contents(t, db)
	found := 0
	for strike.Store(1); ; strike.Add(1) {
		s := newMemStore()
		reads.Store(0)
		_, err := repository.Backup(t.Context(), db, s, repository.Options{})
		if reads.Load() < strike.Load() {
			break
		}
		if err != nil {
			found++
			continue
		}
		if restored(t, s, "") != want {
			t.Fatalf("read %d was damaged, and so is the backup", strike.Load())
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
	t.Logf("%d of %d damaged reads were found", found, strike.Load()-1)
}

// flipped is a file system that shows each read to a function.
type flipped struct {
	vfs.FS
	read func(name string, p []byte)
}

func (f flipped) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return flippedFile{file, f.read}, nil
}

type flippedFile struct {
	vfs.File
	read func(name string, p []byte)
}

func (f flippedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.read(f.Name(), p[:n])
	return n, err
}

// TestContexts ends a backup, a restore and a verify by their context.
func TestContexts(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	change(t, db, 1, 50)
	backup(t, db, s)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := repository.Backup(ended, db, s, repository.Options{})
	_, err2 := repository.Restore(ended, s, "", "dir", repository.RestoreOptions{FS: vfs.NewMem()})
	_, err3 := repository.Verify(ended, s, repository.VerifyOptions{}, nil)
	_, err4 := repository.Prune(ended, s, repository.Keep{Last: 1}, repository.PruneOptions{})
	for _, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	//lint:ignore SA1012 that is the test
	if _, err := repository.Backup(nil, db, s, repository.Options{}); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
}
