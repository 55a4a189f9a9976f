package follow

import (
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/vfs"
)

// fileSystem is the file system of the copy. It has files of the store that the View holds open, so
// that they can be read after the writer has removed them, and the journal's segments up to where
// they ended at the moment of the copy. Files that are created are in memory only. It changes nothing
// on the disk.
type fileSystem struct {
	vfs.FS
	made   *vfs.Mem            // files that were created
	held   map[string]vfs.File // that the View keeps open, by path
	limits map[string]int64    // where files end in the copy, by path
}

// newFileSystem returns a fileSystem that holds no file yet.
func newFileSystem(fsys vfs.FS) *fileSystem {
	return &fileSystem{FS: fsys, made: vfs.NewMem(), held: make(map[string]vfs.File), limits: make(map[string]int64)}
}

// Create makes a file in memory.
func (f *fileSystem) Create(path string) (vfs.File, error) {
	if err := f.made.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return f.made.Create(path)
}

// Remove removes a file in memory.
func (f *fileSystem) Remove(path string) error { return f.made.Remove(path) }

// SyncDir does nothing: no file is made in the directory.
func (f *fileSystem) SyncDir(string) error { return nil }

// Open opens a file that is held, or in memory, or on the disk.
func (f *fileSystem) Open(path string) (file vfs.File, err error) {
	// What is held first: on the disk another file may have this name by now, or none.
	if held := f.held[path]; held != nil {
		file = heldFile{held}
	} else if file, err = f.made.Open(path); err != nil {
		if file, err = f.FS.Open(path); err != nil {
			return nil, err
		}
	}
	if size, ok := f.limits[path]; ok {
		return limitedFile{file, size}, nil
	}
	return file, nil
}

// heldFile is a file that is held open.
type heldFile struct{ vfs.File }

// Close does nothing: the View closes the file.
func (f heldFile) Close() error { return nil }

// Map is not supported: the copy reads a file once.
func (f heldFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// limitedFile is a file that has gone on since. It can't be mapped.
type limitedFile struct {
	vfs.File
	size int64 // where it ends in the copy
}

// Map is not supported: a mapping would go beyond the end of the copy.
func (f limitedFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// Size is where the file ends in the copy.
func (f limitedFile) Size() (int64, error) { return f.size, nil }
