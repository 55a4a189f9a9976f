package storetest

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// FailingMaps is the operating system's file system, without syncs. Its method Fail
// makes every mapping unreadable, as a disk does that fails.
type FailingMaps struct {
	vfs.FS
	mu     sync.Mutex
	maps   map[*failingMap]bool // open ones
	failed bool
}

type mapsFile struct {
	vfs.File
	fs *FailingMaps
}

type failingMap struct {
	vfs.Mapping
	fs   *FailingMaps
	data []byte
}

// NewFailingMaps returns one that maps files as always until Fail is called.
func NewFailingMaps() *FailingMaps {
	return &FailingMaps{FS: vfs.OS(), maps: make(map[*failingMap]bool)}
}

// Wrap makes the mappings of a file, if err is nil, those of f.
func (f *FailingMaps) Wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return mapsFile{file, f}, nil
}

// OpenDirs opens directories whose files have mappings of f, and which no sync reaches.
func (f *FailingMaps) OpenDirs(names ...string) (vfs.Dirs, error) {
	held, err := f.FS.OpenDirs(names...)
	return mapsDirs{held, f}, err
}

// mapsDirs is where the store opens its files.
type mapsDirs struct {
	vfs.Dirs
	fs *FailingMaps
}

func (d mapsDirs) Create(name string) (vfs.File, error) { return d.fs.Wrap(d.Dirs.Create(name)) }
func (d mapsDirs) Open(name string) (vfs.File, error)   { return d.fs.Wrap(d.Dirs.Open(name)) }

func (d mapsDirs) OpenReadWrite(name string) (vfs.File, error) {
	return d.fs.Wrap(d.Dirs.OpenReadWrite(name))
}

func (d mapsDirs) SyncDir(string) error { return nil }
func (f mapsFile) Sync() error          { return nil }
func (f mapsFile) SyncData() error      { return nil }

func (f mapsFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	w := &failingMap{m, f.fs, m.Data()}
	f.fs.maps[w] = true
	return w, w.protect(f.fs.failed)
}

func (m *failingMap) protect(failed bool) error {
	if failed {
		return unix.Mprotect(m.data, unix.PROT_NONE)
	}
	return unix.Mprotect(m.data, unix.PROT_READ)
}

func (m *failingMap) Close() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	delete(m.fs.maps, m)
	return m.Mapping.Close()
}

// Fail makes all mappings, those to come too, unreadable, or readable again.
func (f *FailingMaps) Fail(t testing.TB, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = failed
	for m := range f.maps {
		assert.OK(t, m.protect(failed))
	}
}
