package pageio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// counting counts the descriptors of a file system, and refuses what it is told to.
type counting struct {
	vfs.FS
	open, most, opened atomic.Int64
	refuse             atomic.Pointer[error]
	refuseMap          bool
}

type countedFile struct {
	vfs.File
	fs *counting
}

func (c *counting) Open(name string) (vfs.File, error) {
	if err := c.refuse.Load(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: *err}
	}
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	for n := c.open.Add(1); ; {
		if most := c.most.Load(); n <= most || c.most.CompareAndSwap(most, n) {
			return &countedFile{f, c}, nil
		}
	}
}

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

func (f *countedFile) Map(size int64) (vfs.Mapping, error) {
	if f.fs.refuseMap {
		return nil, errors.New("cannot allocate memory")
	}
	return f.File.Map(size)
}

// makeFiles writes n files, the i-th of bytes i, and opens all of them.
func makeFiles(t *testing.T, c *counting, files *Files, n int, o Options) []*File {
	t.Helper()
	dir := t.TempDir()
	out := make([]*File, n)
	for i := range out {
		path := filepath.Join(dir, fmt.Sprintf("%06d.val", i))
		if err := os.WriteFile(path, bytes.Repeat([]byte{byte(i)}, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if out[i], err = files.Open(path, o); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestDescriptorsAreBounded(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		const limit, readers = 8, 32
		c := &counting{FS: vfs.OS()}
		s := NewFiles(c, limit)
		files := makeFiles(t, c, s, 100, Options{NoMap: noMap})
		var wg sync.WaitGroup
		for r := range readers { // more than there are descriptors: they wait for one another
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(r)))
				var p [10]byte
				for range 500 {
					i := rng.IntN(len(files))
					if err := files[i].ReadFull(p[:], int64(rng.IntN(90))); err != nil || p[0] != byte(i) || p[9] != byte(i) {
						t.Errorf("file %d: got %v, %v", i, p, err)
						return
					}
					if err := files[i].Prime(0, 100); err != nil {
						t.Errorf("file %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
		if most := c.most.Load(); most > limit {
			t.Errorf("%d descriptors were open, want %d at most", most, limit)
		}
		if int64(s.Count()) != c.open.Load() {
			t.Errorf("%d descriptors are open, counted are %d", c.open.Load(), s.Count())
		}
		for i, f := range files {
			if data := f.Mapped(); data != nil && data[50] != byte(i) {
				t.Errorf("mapping of file %d went with its descriptor", i)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if s.Count() != 0 || c.open.Load() != 0 || s.Mapped() != 0 {
			t.Errorf("after closing: %d descriptors, counted %d, %d mappings", c.open.Load(), s.Count(), s.Mapped())
		}
	}
}

func TestFilesInUseStayOpen(t *testing.T) {
	c := &counting{FS: vfs.OS()}
	s := NewFiles(c, 4)
	files := makeFiles(t, c, s, 20, Options{NoMap: true})
	var p [1]byte
	before := c.opened.Load()
	for i := range 1000 { // one is read all the time, the others in turn
		for _, f := range []*File{files[0], files[1+i%19]} {
			if err := f.ReadFull(p[:], 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := c.opened.Load() - before; n > 1000+20 {
		t.Errorf("files were opened %d times in 1000 reads of others and 1000 of one", n)
	}
}

func TestReopeningFails(t *testing.T) {
	c := &counting{FS: vfs.OS()}
	s := NewFiles(c, 1)
	mapped := makeFiles(t, c, s, 1, Options{})[0]
	files := makeFiles(t, c, s, 2, Options{NoMap: true})
	tooMany := errors.New("too many open files")
	c.refuse.Store(&tooMany)
	var p [10]byte
	err := files[0].ReadFull(p[:], 0)
	var path *fs.PathError
	if !errors.Is(err, tooMany) || !errors.As(err, &path) || filepath.Base(path.Path) != files[0].Name() {
		t.Errorf("got %v, want an error of %s", err, files[0].Name())
	}
	if mapped.Mapped() != nil {
		if err := mapped.Prime(0, 10); err != nil {
			t.Errorf("what is mapped needs no descriptor: %v", err)
		}
	}
	c.refuse.Store(nil)
	if err := files[0].ReadFull(p[:], 0); err != nil {
		t.Errorf("after the failure: %v", err)
	}

	if err := files[1].ReadFull(p[:], 0); err != nil { // closes files[0]
		t.Fatal(err)
	}
	if err := os.Remove(files[0].path); err != nil {
		t.Fatal(err)
	}
	var damage *errs.Corruption
	if err := files[0].ReadFull(p[:], 0); !errors.As(err, &damage) || damage.File != files[0].Name() || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file that is gone: got %v, want a corruption of %s", err, files[0].Name())
	}
}

func TestMappingsAreBounded(t *testing.T) {
	c := &counting{FS: vfs.OS()}
	s := NewFiles(c, 0)
	s.mappings = mapped.Load() + 3
	files := makeFiles(t, c, s, 10, Options{})
	if n := s.Mapped(); n > 3 {
		t.Errorf("%d files are mapped, want 3 at most", n)
	}
	c.refuseMap = true
	files = append(files, makeFiles(t, c, s, 3, Options{})...)
	for _, f := range files {
		if b, err := bytesAt(f, 10, 5); err != nil || len(b) != 5 {
			t.Errorf("%s, mapped %v: got %v, %v", f.Name(), f.Mapped() != nil, b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Mapped() != 0 {
		t.Errorf("%d mappings are left", s.Mapped())
	}
}
