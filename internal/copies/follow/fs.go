package follow

import (
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/vfs"
)

// fileSystem is the file system of the copy. It has files of the store that the View holds open, so
// that they can be read after the writer has removed them, and up to where they ended at that time.
// Files that are created are in memory only. It changes nothing on the disk. holdFile and limitFile are called
// before the others, which may run together.
type fileSystem struct {
	vfs.FS
	made *vfs.Mem            // files that were created
	held map[string]heldFile // by path
}

// newFileSystem returns a fileSystem that holds no file yet.
func newFileSystem(fsys vfs.FS) *fileSystem {
	return &fileSystem{FS: fsys, made: vfs.NewMem(), held: make(map[string]heldFile)}
}

// holdFile adds a file that the View keeps open.
func (f *fileSystem) holdFile(file vfs.File) { f.held[file.Name()] = heldFile{file, -1} }

// limitFile says where a file that is held ends.
func (f *fileSystem) limitFile(path string, size int64) {
	f.held[path] = heldFile{f.held[path].File, size}
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
func (f *fileSystem) Open(path string) (vfs.File, error) {
	// First: on the disk another file may have this name by now, or none.
	if file, ok := f.held[path]; ok {
		return file, nil
	}
	if file, err := f.made.Open(path); err == nil {
		return file, nil
	}
	return f.FS.Open(path)
}

// heldFile is a file that is held open. It can't be mapped.
type heldFile struct {
	vfs.File
	size int64 // where it ends; less than 0: where it ends on the disk
}

// Close does nothing: the View closes the file.
func (f heldFile) Close() error { return nil }

// Map is not supported: a mapping would go beyond the end of the copy.
func (f heldFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// Size is where the file ends in the copy.
func (f heldFile) Size() (int64, error) {
	if f.size >= 0 {
		return f.size, nil
	}
	return f.File.Size()
}
