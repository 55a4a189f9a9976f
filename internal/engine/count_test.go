package engine

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// counting is a file system that knows which files are open, and lets a test
// look at each creation.
type counting struct {
	vfs.FS
	mu       sync.Mutex
	open     map[*countedFile]string
	twice    []string     // files that were closed twice
	onCreate func(string) // called before a file is created
}

func newCounting(fs vfs.FS) *counting { return &counting{FS: fs, open: map[*countedFile]string{}} }

type countedFile struct {
	vfs.File
	fs     *counting
	closed atomic.Bool
}

func (c *counting) note(f vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	n := &countedFile{File: f, fs: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[n] = filepath.Base(name)
	return n, nil
}

func (c *counting) Create(name string) (vfs.File, error) {
	c.mu.Lock()
	hook := c.onCreate
	c.mu.Unlock()
	if hook != nil {
		hook(name)
	}
	f, err := c.FS.Create(name)
	return c.note(f, err, name)
}

func (c *counting) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return c.note(f, err, name)
}

func (c *counting) OpenReadWrite(name string) (vfs.File, error) {
	f, err := c.FS.OpenReadWrite(name)
	return c.note(f, err, name)
}

func (f *countedFile) Close() error {
	f.fs.mu.Lock()
	if f.closed.Swap(true) {
		f.fs.twice = append(f.fs.twice, f.fs.open[f])
	}
	delete(f.fs.open, f)
	f.fs.mu.Unlock()
	return f.File.Close()
}

// files names the files that are open.
func (c *counting) files() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.open))
}

// checkClosed fails if any file is still open, or was closed twice.
func (c *counting) checkClosed(t testing.TB) {
	t.Helper()
	if open := c.files(); len(open) > 0 {
		t.Errorf("files still open: %v", open)
	}
	if len(c.twice) > 0 {
		t.Errorf("files closed twice: %v", c.twice)
	}
}

// names lists the files of the store.
func names(t testing.TB, fs vfs.FS) string {
	t.Helper()
	list, err := fs.List("/s")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(list)
}
