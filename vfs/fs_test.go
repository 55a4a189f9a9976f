package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// each runs a test on every file system, in an empty directory.
func each(t *testing.T, test func(t *testing.T, f FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) { test(t, NewMem(), "/") })
}

func create(t *testing.T, f FS, name, text string) File {
	t.Helper()
	file, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	return file
}

func put(t *testing.T, f FS, name, text string) {
	t.Helper()
	must(t, create(t, f, name, text).Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text returns the content of a file, or "absent".
func text(t *testing.T, f FS, name string) string {
	t.Helper()
	file, err := f.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	must(t, err)
	defer file.Close()
	size, err := file.Size()
	must(t, err)
	p := make([]byte, size)
	if n, err := file.ReadAt(p, 0); n < len(p) {
		t.Fatal(err)
	}
	return string(p)
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
		is := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}
		put(t, f, in("b"), "one")
		_, err := f.Create(in("b"))
		is("create an existing file", err, fs.ErrExist)
		_, err = f.Create(in("no", "b"))
		is("create in a missing directory", err, fs.ErrNotExist)
		_, err = f.Open(in("c"))
		is("open a missing file", err, fs.ErrNotExist)
		_, err = f.OpenReadWrite(in("c"))
		is("open a missing file to write", err, fs.ErrNotExist)
		is("remove a missing file", f.Remove(in("c")), fs.ErrNotExist)
		is("rename a missing file", f.Rename(in("c"), in("d")), fs.ErrNotExist)
		_, err = f.Stat(in("c"))
		is("stat a missing file", err, fs.ErrNotExist)
		_, err = f.List(in("no"))
		is("list a missing directory", err, fs.ErrNotExist)
		is("sync a missing directory", f.SyncDir(in("no")), fs.ErrNotExist)

		must(t, f.MkdirAll(in("x", "y")))
		must(t, f.MkdirAll(in("x", "y")))
		must(t, f.SyncDir(in("x")))
		put(t, f, in("x", "y", "z"), "in y")
		if err := f.Remove(in("x", "y")); err == nil {
			t.Error("removed a directory that isn't empty")
		}
		put(t, f, in("a"), "two")
		is("rename over a file", f.Rename(in("a"), in("b")), fs.ErrExist)
		is("rename over a directory", f.Rename(in("a"), in("x")), fs.ErrExist)
		if got := text(t, f, in("b")) + text(t, f, in("a")); got != "onetwo" {
			t.Errorf("after refused renames: %s", got)
		}
		must(t, f.Remove(in("b")))
		must(t, f.Rename(in("a"), in("b")))
		if got := text(t, f, in("b")) + text(t, f, in("a")); got != "twoabsent" {
			t.Errorf("after a rename: %s", got)
		}
		_, err = f.Open(in("x"))
		is("open a directory", err, fs.ErrInvalid)
		_, err = f.OpenReadWrite(in("x"))
		is("open a directory to write", err, fs.ErrInvalid)
		names, err := f.List(dir)
		if err != nil || !slices.Equal(names, []string{"b", "x"}) {
			t.Errorf("list: %v, %v", names, err)
		}
		info, err := f.Stat(in("b"))
		if err != nil || info.Size != 3 || info.IsDir {
			t.Errorf("stat a file: %+v, %v", info, err)
		}
		if info, err := f.Stat(in("x")); err != nil || !info.IsDir {
			t.Errorf("stat a directory: %+v, %v", info, err)
		}
		must(t, f.Remove(in("x", "y", "z")))
		must(t, f.Remove(in("x", "y")))
		if _, err := f.Free(dir); err != nil {
			t.Error(err)
		}
	})
}

func TestFilesThatLostTheirName(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		name := filepath.Join(dir, "a")
		file := create(t, f, name, "old")
		defer file.Close()
		if err := f.Remove(name); err != nil {
			t.Skip("open files can't be removed here")
		}
		put(t, f, name, "new")
		p := make([]byte, 3)
		if _, err := file.ReadAt(p, 0); err != nil || string(p) != "old" {
			t.Errorf("got %q, %v", p, err)
		}
	})
}

func TestHandles(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		name := filepath.Join(dir, "a")
		put(t, f, name, "text")
		file, err := f.Open(name)
		must(t, err)
		if file.Name() != name {
			t.Errorf("name %q", file.Name())
		}
		if _, err := file.WriteAt([]byte("x"), 0); err == nil {
			t.Error("wrote to a file opened for reading")
		}
		p := make([]byte, 3)
		if n, err := file.ReadAt(p, 2); n != 2 || err != io.EOF {
			t.Errorf("read beyond the end: %d, %v", n, err)
		}
		if n, err := file.ReadAt(p, 9); n != 0 || err != io.EOF {
			t.Errorf("read behind the end: %d, %v", n, err)
		}
		must(t, file.Close())
		if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		if _, err := file.ReadAt(p, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	})
}

// TestWritesAgainstModel does random writes and resizes to a file and a slice.
func TestWritesAgainstModel(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		seed := draw.Seed(t)
		rng := rand.New(rand.NewPCG(seed, 0))
		file, err := f.Create(filepath.Join(dir, "a"))
		must(t, err)
		defer file.Close()
		var model []byte
		grow := func(n int) { model = append(model, make([]byte, max(0, n-len(model)))...) }
		for step := range 300 {
			off := rng.IntN(40_000)
			switch rng.IntN(8) {
			case 0:
				must(t, file.Truncate(int64(off)))
				grow(off)
				model = model[:off]
			case 1:
				must(t, file.Truncate(int64(len(model)+off)))
				grow(len(model) + off)
			case 2:
				must(t, file.Sync())
			case 3:
				must(t, file.SyncData())
				file.StartWriteback(0, int64(off))
				file.StartRead(0, int64(off))
			default:
				var bufs [][]byte
				var all []byte
				for range rng.IntN(5) {
					p := bytes.Repeat([]byte{byte(1 + rng.IntN(255))}, rng.IntN(1+rng.IntN(10_000)))
					bufs, all = append(bufs, p), append(all, p...)
				}
				if n, err := file.WriteVec(bufs, int64(off)); n != len(all) || err != nil {
					t.Fatalf("seed %d: wrote %d of %d: %v", seed, n, len(all), err)
				}
				if len(all) > 0 {
					grow(off + len(all))
					copy(model[off:], all)
				}
			}
			size, err := file.Size()
			must(t, err)
			got := make([]byte, size)
			if n, err := file.ReadAt(got, 0); n < len(got) {
				t.Fatal(err)
			}
			if !bytes.Equal(got, model) {
				t.Fatalf("seed %d: file and model differ after step %d", seed, step)
			}
		}
	})
}

func TestManyBuffers(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		for _, n := range []int{0, 1, 1023, 1024, 1025, 5000} {
			name := filepath.Join(dir, fmt.Sprint(n))
			file, err := f.Create(name)
			must(t, err)
			var bufs [][]byte
			for i := range n {
				bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%7))
			}
			want := slices.Concat(bufs...)
			wrote, err := file.WriteVec(bufs, 0)
			if wrote != len(want) || err != nil {
				t.Errorf("%d buffers: wrote %d of %d: %v", n, wrote, len(want), err)
			}
			must(t, file.Close())
			if text(t, f, name) != string(want) {
				t.Errorf("%d buffers: wrong content", n)
			}
		}
	})
}

// shortWriter fails after some bytes, and records what it got.
type shortWriter struct {
	data []byte
	left int
}

func (w *shortWriter) WriteAt(p []byte, off int64) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	w.data = append(w.data[:off], p[:n]...)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func TestGather(t *testing.T) {
	var bufs [][]byte
	for i, n := range []int{0, 10, gatherSize, 5, gatherSize / 2, gatherSize/2 - 1, gatherSize/2 + 1, 3, 0} {
		bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, n))
	}
	want := slices.Concat(bufs...)
	for _, limit := range []int{0, 7, 10, gatherSize, gatherSize + 12, len(want) - 1, len(want)} {
		w := &shortWriter{left: limit}
		n, err := writeGathered(w, bufs, 0)
		if n != limit || (err == nil) != (limit == len(want)) || !bytes.Equal(w.data, want[:limit]) {
			t.Errorf("room for %d: wrote %d, %v", limit, n, err)
		}
	}
}

func TestLocks(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		if l, err := f.Lock(name, true); err == nil {
			must(t, l.Close())
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("shared lock of a missing file: %v", err)
		}
		if text(t, f, name) != "absent" {
			t.Error("a shared lock made the file")
		}
		refused := func(shared, readers bool) {
			t.Helper()
			_, err := f.Lock(name, shared)
			var l *LockedError
			if !errors.As(err, &l) || (l.Owner == "") != readers || l.Shared != readers || !errors.Is(err, errs.ErrLocked) {
				t.Errorf("got %#v, want refusal, by readers: %v", err, readers)
			}
		}
		first, err := f.Lock(name, false)
		must(t, err)
		refused(false, false)
		refused(true, false)
		must(t, first.Close())
		if err := first.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		r1, err := f.Lock(name, true)
		must(t, err)
		r2, err := f.Lock(name, true)
		must(t, err)
		refused(false, true)
		must(t, r1.Close())
		refused(false, true)
		must(t, r2.Close())
		again, err := f.Lock(name, false)
		must(t, err)
		if got := text(t, f, name); len(got) < 3 {
			t.Errorf("the owner's name is %q", got)
		}
		must(t, again.Close())
	})
}

// TestLockWithoutItsFile removes and replaces the file of a lock that is held: nobody
// else gets in.
func TestLockWithoutItsFile(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		if runtime.GOOS == "windows" {
			t.Skip("a locked file can't be removed here")
		}
		name := filepath.Join(dir, "LOCK")
		for _, first := range []bool{false, true} {
			l, err := f.Lock(name, first)
			must(t, err)
			for _, replace := range []bool{false, true} {
				_ = f.Remove(name)
				if replace {
					put(t, f, name, "replaced\n")
				}
				for _, shared := range []bool{false, true} {
					second, err := f.Lock(name, shared)
					if first && shared {
						must(t, err)
						must(t, second.Close())
					} else if !errors.Is(err, errs.ErrLocked) {
						t.Errorf("shared %v, then %v, file replaced %v: %v", first, shared, replace, err)
					}
				}
			}
			must(t, l.Close())
		}
	})
}

// TestLinks gives files more names, in one directory and from one that is held open to
// another.
func TestLinks(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
		must(t, f.MkdirAll(in("a")))
		must(t, f.MkdirAll(in("b")))
		put(t, f, in("a", "one"), "text")
		put(t, f, in("a", "other"), "x")
		held, err := f.OpenDirs(in("a"))
		must(t, err)
		both, err := held.OpenDirs(in("b"))
		must(t, err)
		if err := held.Link(in("a", "one"), in("b", "two")); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("link to a directory that is not held: %v", err)
		}
		err = both.Link(in("a", "one"), in("b", "two"))
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("no links here")
		}
		must(t, err)
		must(t, f.Link(in("b", "two"), in("a", "three")))
		for _, name := range []string{in("a", "one"), in("b", "two"), in("a", "three")} {
			if i, err := f.Stat(name); err != nil || i.Size != 4 {
				t.Errorf("%s: %+v, %v", name, i, err)
			}
		}
		if err := both.Link(in("a", "other"), in("b", "two")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("link to a name that is taken: %v", err)
		}
		if err := f.Link(in("a", "none"), in("b", "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("link of no file: %v", err)
		}
		must(t, both.Remove(in("a", "one")))
		file, err := f.OpenReadWrite(in("a", "three"))
		must(t, err)
		_, err = file.WriteAt([]byte("T"), 0)
		must(t, err)
		must(t, file.Close())
		if i, err := both.Stat(in("b", "two")); err != nil || text(t, f, in("b", "two")) != "Text" {
			t.Errorf("the other name: %+v, %v, %q", i, err, text(t, f, in("b", "two")))
		}
		must(t, both.Close())
		must(t, held.SyncDir(in("a")))
		must(t, held.Close())
	})
}

// TestClones makes files that share blocks, where that can be done, and writes to one.
func TestClones(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		put(t, f, a, strings.Repeat("text", 2000))
		err := f.Clone(a, b)
		if errors.Is(err, errors.ErrUnsupported) {
			if got := text(t, f, b); got != "absent" {
				t.Errorf("a clone that was refused has left %q", got)
			}
			t.Skip("no clones here")
		}
		must(t, err)
		file, err := f.OpenReadWrite(b)
		must(t, err)
		_, err = file.WriteAt([]byte("T"), 0)
		must(t, err)
		must(t, file.Close())
		if text(t, f, a)[:4] != "text" || text(t, f, b)[:4] != "Text" || len(text(t, f, b)) != 8000 {
			t.Error("the files are not apart")
		}
		if err := f.Clone(a, b); !errors.Is(err, fs.ErrExist) {
			t.Errorf("clone to a name that is taken: %v", err)
		}
	})
}

// TestHeldDirectories renames directories that are held open, puts others in their place,
// and removes one.
func TestHeldDirectories(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
		must(t, f.MkdirAll(in("a")))
		must(t, f.MkdirAll(in("b")))
		put(t, f, in("a", "file"), "of a")
		put(t, f, in("other"), "x")
		if _, err := f.OpenDirs(in("a"), in("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing directory: %v", err)
		}
		held, err := f.OpenDirs(in("a"), in("b"), in("a"))
		must(t, err)
		lock, err := held.Lock(in("a", "LOCK"), false)
		must(t, err)
		rename := os.Rename
		if m, ok := f.(*Mem); ok {
			rename = m.Rename
		}
		if err := rename(in("a"), in("moved")); err != nil {
			t.Skip("open directories can't be renamed here:", err)
		}
		must(t, f.MkdirAll(in("a")))
		put(t, f, in("a", "file"), "of another")
		if other, err := f.Lock(in("a", "LOCK"), false); err != nil {
			t.Errorf("the other directory is locked: %v", err)
		} else {
			must(t, other.Close())
		}
		if _, err := f.Lock(in("moved", "LOCK"), false); !errors.Is(err, errs.ErrLocked) {
			t.Errorf("the directory that was renamed is not locked: %v", err)
		}

		put(t, held, in("a", "new"), "new")
		must(t, held.Rename(in("a", "new"), in("a", "newer")))
		must(t, held.SyncDir(in("a")))
		names, err := held.List(in("a"))
		if err != nil || !slices.Equal(names, []string{"LOCK", "file", "newer"}) {
			t.Errorf("list: %v, %v", names, err)
		}
		file, err := held.OpenReadWrite(in("a", "file"))
		must(t, err)
		if file.Name() != in("a", "file") {
			t.Errorf("name %q", file.Name())
		}
		must(t, file.Close())
		if got := text(t, held, in("a", "file")) + text(t, f, in("moved", "newer")) + text(t, f, in("a", "newer")); got != "of anewabsent" {
			t.Errorf("got %q", got)
		}
		if i, err := held.Stat(in("a", "file")); err != nil || i.Size != 4 {
			t.Errorf("stat: %+v, %v", i, err)
		}
		if i, err := held.Stat(in("a")); err != nil || !i.IsDir {
			t.Errorf("stat of the directory: %+v, %v", i, err)
		}
		must(t, held.MkdirAll(in("a")))
		if _, err := held.Free(in("a")); err != nil {
			t.Error(err)
		}
		must(t, held.Remove(in("a", "newer")))
		for _, name := range []string{in("other"), in("b", "c", "d"), in("a", "newer")} {
			_, err := held.Open(name)
			_, err2 := held.Create(filepath.Join(name, "x"))
			var p *fs.PathError
			if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err2, fs.ErrNotExist) || !errors.As(err, &p) || p.Path != name {
				t.Errorf("%s: %v, %v", name, err, err2)
			}
		}
		more, err := held.OpenDirs(in("moved"), in("a")) // the other one has this name, but not for those who hold a
		must(t, err)
		if got := text(t, more, in("a", "file")) + text(t, more, in("moved", "file")); got != "of aof a" {
			t.Errorf("more directories: got %q", got)
		}
		must(t, more.Close())
		if got := text(t, held, in("a", "file")); got != "of a" {
			t.Errorf("after more directories: got %q", got)
		}
		must(t, held.Close())
		if _, err := held.Open(in("a", "file")); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("open after Close: %v", err)
		}
		if err := held.SyncDir(in("b")); dirsSync && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("sync after Close: %v", err)
		}
		must(t, lock.Close())
	})
}

// TestOneHolder lets goroutines fight for a lock; the race detector watches.
func TestOneHolder(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		name, counter := filepath.Join(dir, "LOCK"), 0
		var wg sync.WaitGroup
		var won sync.Mutex
		for range 8 {
			wg.Go(func() {
				for range 50 {
					l, err := f.Lock(name, false)
					if err != nil {
						continue
					}
					if !won.TryLock() {
						t.Error("two holders")
						return
					}
					counter++
					won.Unlock()
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if counter == 0 {
			t.Error("nobody got the lock")
		}
	})
}

func TestMap(t *testing.T) {
	each(t, func(t *testing.T, f FS, dir string) {
		name := filepath.Join(dir, "a")
		want := bytes.Repeat([]byte("0123456789"), 2000)
		put(t, f, name, string(want))
		file, err := f.Open(name)
		must(t, err)
		m, err := file.Map(int64(len(want)))
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		must(t, err)
		must(t, file.Close())
		if !bytes.Equal(m.Data(), want) {
			t.Error("wrong content, or gone with the file")
		}
		must(t, m.Close())
		must(t, m.Close())
		if m.Data() != nil {
			t.Error("data after close")
		}
	})
}

func TestIsNoSpace(t *testing.T) {
	if !IsNoSpace(fmt.Errorf("write: %w", errs.ErrNoSpace)) || IsNoSpace(nil) || IsNoSpace(fs.ErrExist) {
		t.Error("misjudged")
	}
}
