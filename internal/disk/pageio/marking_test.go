package pageio

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// calls are all calls of a file system that can fail.
var calls = map[faultfs.Kind]func(s vfs.FS, f vfs.File) error{
	faultfs.Create:        func(s vfs.FS, _ vfs.File) error { _, err := s.Create("d/new"); return err },
	faultfs.Open:          func(s vfs.FS, _ vfs.File) error { _, err := s.Open("d/a"); return err },
	faultfs.OpenReadWrite: func(s vfs.FS, _ vfs.File) error { _, err := s.OpenReadWrite("d/a"); return err },
	faultfs.Remove:        func(s vfs.FS, _ vfs.File) error { return s.Remove("d/a") },
	faultfs.Rename:        func(s vfs.FS, _ vfs.File) error { return s.Rename("d/a", "d/b") },
	faultfs.MkdirAll:      func(s vfs.FS, _ vfs.File) error { return s.MkdirAll("e") },
	faultfs.List:          func(s vfs.FS, _ vfs.File) error { _, err := s.List("d"); return err },
	faultfs.Stat:          func(s vfs.FS, _ vfs.File) error { _, err := s.Stat("d/a"); return err },
	faultfs.Lock: func(s vfs.FS, _ vfs.File) error {
		_, err := s.Lock("d/LOCK", false)
		return err
	},
	faultfs.Link:     func(s vfs.FS, _ vfs.File) error { return s.Link("d/a", "d/b") },
	faultfs.Clone:    func(s vfs.FS, _ vfs.File) error { return s.Clone("d/a", "d/b") },
	faultfs.SyncDir:  func(s vfs.FS, _ vfs.File) error { return s.SyncDir("d") },
	faultfs.Read:     func(_ vfs.FS, f vfs.File) error { _, err := f.ReadAt(make([]byte, 4), 0); return err },
	faultfs.Write:    func(_ vfs.FS, f vfs.File) error { _, err := f.WriteAt([]byte("1234"), 0); return err },
	faultfs.Truncate: func(_ vfs.FS, f vfs.File) error { return f.Truncate(2) },
	faultfs.Sync:     func(_ vfs.FS, f vfs.File) error { return f.Sync() },
	faultfs.SyncData: func(_ vfs.FS, f vfs.File) error { return f.SyncData() },
	faultfs.Size:     func(_ vfs.FS, f vfs.File) error { _, err := f.Size(); return err },
	faultfs.Map:      func(_ vfs.FS, f vfs.File) error { _, err := f.Map(4); return err },
	faultfs.Close:    func(_ vfs.FS, f vfs.File) error { return f.Close() },
}

// What a failure has left behind follows from the call, and not from the text of the
// error: only a write, a sync and a close can have changed something.
func TestClassOfEachCall(t *testing.T) {
	const changing = faultfs.Write | faultfs.Truncate | faultfs.Syncs | faultfs.Close
	for kind, call := range calls {
		for _, err := range []error{faultfs.ErrIO, syscall.EMFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN, faultfs.ErrNoSpace, fs.ErrNotExist, fs.ErrPermission} {
			faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
			s := MarkErrors(faulty)
			f := prepare(t, s)
			faulty.Inject(faultfs.Fault{Kinds: kind, Err: err, Times: faultfs.Always})
			got := call(s, f)
			want := errs.Refused
			switch {
			case errors.Is(err, faultfs.ErrNoSpace):
				want = errs.Full
			case kind == faultfs.Write && (vfs.IsInterrupted(err) || vfs.IsOutOfMemory(err)):
			case kind == faultfs.SyncDir && vfs.IsOutOfFiles(err):
			case kind&changing != 0, err == fs.ErrNotExist:
				want = errs.Final
			}
			if !errors.Is(got, err) || errs.ClassOf(got) != want || errors.Is(got, errs.ErrRefused) != (want == errs.Refused) {
				t.Errorf("%v fails with %v: %v is of class %d, want %d", kind, err, got, errs.ClassOf(got), want)
			}
		}
	}
}

func prepare(t *testing.T, s vfs.FS) vfs.File {
	t.Helper()
	if err := s.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := s.Create("d/a")
	if err == nil {
		_, err = f.WriteAt([]byte("abcd"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Reads and writes that were interrupted are made again, for what they have not done
// yet; syncs are not, as the second one may succeed without the data.
func TestInterruptedCallsAreRepeated(t *testing.T) {
	for _, err := range []error{syscall.EINTR, syscall.EAGAIN} {
		faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
		s := MarkErrors(faulty)
		f := prepare(t, s)
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Read | faultfs.Write | faultfs.Truncate | faultfs.Syncs, Err: err, Short: true, Times: 3})
		if n, err := f.WriteVec([][]byte{[]byte("01"), nil, []byte("23456"), []byte("7"), []byte("89")}, 0); n != 10 || err != nil {
			t.Errorf("wrote %d bytes: %v", n, err)
		}
		faulty.Heal()
		p := make([]byte, 10)
		for i, do := range []func() error{
			func() error { n, err := f.ReadAt(p, 0); return wantN(n, 10, err) },
			func() error { n, err := f.WriteAt([]byte("abcdef"), 3); return wantN(n, 6, err) },
		} {
			faulty.Inject(faultfs.Fault{Err: err, Short: true, Times: 3})
			if err := do(); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			faulty.Heal()
		}
		for i, do := range []func() error{f.Sync, f.SyncData, func() error { return s.SyncDir("d") }} {
			faulty.Inject(faultfs.Fault{Err: err})
			if err := do(); errs.ClassOf(err) != errs.Final {
				t.Errorf("sync %d: %v", i, err)
			}
		}
		n, err := f.ReadAt(p, 0)
		if string(p[:n]) != "012abcdef9" || err != nil {
			t.Errorf("read %q, %v", p[:n], err)
		}
	}
}

func wantN(n, want int, err error) error {
	if err == nil && n != want {
		return fmt.Errorf("%d bytes, want %d", n, want)
	}
	return err
}

// TestFailedSyncOfADirectory: the next sync would succeed, but the name of a file that was made
// before the first may be lost.
func TestFailedSyncOfADirectory(t *testing.T) {
	for _, failed := range []error{faultfs.ErrIO, faultfs.ErrNoSpace, syscall.EINTR, syscall.EMFILE} {
		faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
		s := MarkErrors(faulty)
		prepare(t, s)
		if err := s.MkdirAll("e"); err != nil {
			t.Fatal(err)
		}
		opened, err := s.OpenDirs("d", "e")
		if err != nil {
			t.Fatal(err)
		}
		faulty.Inject(faultfs.Fault{Kinds: faultfs.SyncDir, Err: failed})
		if err := s.SyncDir("d"); !errors.Is(err, failed) {
			t.Errorf("%v, want %v", err, failed)
		}
		for _, s := range []vfs.FS{s, opened} {
			err := s.SyncDir("d")
			if lost := failed != syscall.EMFILE; lost && (!errors.Is(err, failed) || errs.ClassOf(err) != errs.Final) || !lost && err != nil {
				t.Errorf("after %v: %v", failed, err)
			}
			if err := s.SyncDir("e"); err != nil {
				t.Errorf("another directory: %v", err)
			}
		}
	}
}

// A write that has done a part and then goes on to fail is no refusal.
func TestPartOfAWriteIsFinal(t *testing.T) {
	faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
	f := prepare(t, MarkErrors(faulty))
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Write, Err: syscall.EINTR, Short: true, Times: faultfs.Always})
	if n, err := f.WriteAt(make([]byte, 1<<20), 0); n == 0 || errs.ClassOf(err) != errs.Final {
		t.Errorf("%d bytes: %v", n, err)
	}
}

// Whatever an error is joined with, it passes only if all of it does.
func TestClassOfJoinedErrors(t *testing.T) {
	passes, full, lost := markRefused(faultfs.ErrFiles), markRefused(faultfs.ErrNoSpace), markFinal(faultfs.ErrIO)
	for _, c := range []struct {
		err  error
		want errs.Class
	}{
		{passes, errs.Refused}, {full, errs.Full}, {lost, errs.Final}, {faultfs.ErrIO, errs.Final},
		{errors.Join(passes, lost), errs.Final}, {errors.Join(full, lost), errs.Final}, {errors.Join(full, passes), errs.Full},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", passes)), errs.Refused},
		{fmt.Errorf("%w: %w", errs.ErrStopped, passes), errs.Final}, {fmt.Errorf("%w: %w", errs.ErrStopped, full), errs.Final},
		{&errs.Corruption{File: filepath.Join("a"), Err: passes}, errs.Final},
	} {
		if got := errs.ClassOf(c.err); got != c.want || errs.Passes(c.err) != (c.want != errs.Final) || errs.IsFull(c.err) != (c.want == errs.Full) || errs.IsRefused(c.err) != (c.want == errs.Refused) {
			t.Errorf("%v: class %d, want %d", c.err, got, c.want)
		}
	}
	if errs.Passes(nil) || errs.IsFull(nil) || errs.IsRefused(nil) {
		t.Error("nil is a failure")
	}
}
