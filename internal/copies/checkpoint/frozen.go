package checkpoint

import (
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/vfs"
)

// Frozen is a file system for a copy of a store that this process doesn't write. It has files of
// the store that the caller holds open, so that they can be read after the writer has removed them,
// and up to where they ended at that time. Files that are created are in memory only. It changes
// nothing on the disk. Hold and End are called before the others, which may run together.
type Frozen struct {
	vfs.FS
	made *vfs.Mem              // files that were created
	held map[string]frozenFile // by path
}

// Freeze returns a Frozen that holds no file yet.
func Freeze(fsys vfs.FS) *Frozen {
	return &Frozen{FS: fsys, made: vfs.NewMem(), held: make(map[string]frozenFile)}
}

// Hold adds a file that the caller keeps open.
func (f *Frozen) Hold(file vfs.File) { f.held[file.Name()] = frozenFile{file, -1} }

// End says where a file that is held ends.
func (f *Frozen) End(path string, size int64) { f.held[path] = frozenFile{f.held[path].File, size} }

// Create makes a file in memory.
func (f *Frozen) Create(path string) (vfs.File, error) {
	if err := f.made.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return f.made.Create(path)
}

// Remove removes a file in memory.
func (f *Frozen) Remove(path string) error { return f.made.Remove(path) }

// SyncDir does nothing: no file is made in the directory.
func (f *Frozen) SyncDir(string) error { return nil }

// Open opens a file that is held, or in memory, or on the disk.
func (f *Frozen) Open(path string) (vfs.File, error) {
	// First: on the disk another file may have this name by now, or none.
	if file, ok := f.held[path]; ok {
		return file, nil
	}
	if file, err := f.made.Open(path); err == nil {
		return file, nil
	}
	return f.FS.Open(path)
}

// frozenFile is a file that is held open. It can't be mapped.
type frozenFile struct {
	vfs.File
	size int64 // where it ends; less than 0: where it ends on the disk
}

// Close does nothing: the caller of Hold closes the file.
func (f frozenFile) Close() error { return nil }

// Map is not supported: a mapping would go beyond the end of the copy.
func (f frozenFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// Size is where the file ends in the copy.
func (f frozenFile) Size() (int64, error) {
	if f.size >= 0 {
		return f.size, nil
	}
	return f.File.Size()
}
