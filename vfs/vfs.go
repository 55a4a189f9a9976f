// Package vfs is the file system as Brock uses it: a small interface (FS), its implementation
// by the operating system (OS), and one in memory that can crash (Mem). A store touches files
// through an FS only, so that a test or an application can provide any other one.
//
// Errors are those of io/fs: errors.Is works with fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission and fs.ErrClosed. Calls that a platform doesn't have return
// errors.ErrUnsupported, perhaps wrapped. IsNoSpace recognises a full disk.
package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// FS is a file system. Names are slash or operating system paths; every method
// may be called by any number of goroutines.
//
// A name that was created, replaced or removed is durable only after SyncDir
// of its directory; until then a crash may leave the old state, the new one, or,
// after a rename, both names or neither.
type FS interface {
	// Create makes a file and opens it for reading and writing. It returns
	// fs.ErrExist if the name exists, also as a symbolic link. Only the owner may
	// read and write the file.
	Create(name string) (File, error)
	// Open opens an existing file for reading. It returns an error at once, which is
	// fs.ErrInvalid, for what is no regular file: a directory, a symbolic link, a pipe.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing, as Open does.
	OpenReadWrite(name string) (File, error)
	// Remove removes a file or an empty directory. Open files of that name stay
	// usable; on Windows the call may fail while there are any.
	Remove(name string) error
	// Rename gives a file another name in the same directory. It returns fs.ErrExist if the
	// new name exists: no rename replaces a file.
	Rename(from, to string) error
	// Link gives a file one more name, in the same or another directory, as a hard link:
	// both names mean the same bytes. It returns fs.ErrExist if the new name exists. Where
	// a file can't have that name, as on another disk, it changes nothing and returns an
	// error, which may be errors.ErrUnsupported.
	Link(from, to string) error
	// Clone makes a file of the same bytes that shares their place on the disk with the
	// first until one of them is written (reflink). It returns fs.ErrExist if the name
	// exists, and errors.ErrUnsupported where the file system can't do that. The bytes are
	// durable after a Sync of the new file.
	Clone(from, to string) error
	// MkdirAll makes a directory, and those above it, unless they exist. Only
	// the owner may enter what it makes.
	MkdirAll(dir string) error
	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (Info, error)
	// SyncDir makes the names in a directory durable, where that takes a call.
	SyncDir(dir string) error
	// Lock takes an advisory lock on the file name and, where the system can, on its
	// directory: then removing the file does not free the lock. If another holder has a lock
	// that excludes this one, it returns a *LockedError at once; locks of one process
	// conflict, too. An exclusive lock creates the file and writes process and host into it as
	// text, for LockedError.Owner of others. A shared lock writes
	// nothing; without the file it locks the directory, or returns fs.ErrNotExist. Close
	// releases the lock, and so does the end of the process; the file stays.
	Lock(name string, shared bool) (io.Closer, error)
	// Free returns how many bytes can still be written in a directory's file
	// system; -1 if that is not known.
	Free(dir string) (int64, error)
	// OpenDirs opens directories, which must exist, and keeps them open. OpenDirs of a Dirs
	// returns a Dirs of both these directories and its own, so that files can be linked from
	// one to another; its Close closes the new ones only.
	OpenDirs(dirs ...string) (Dirs, error)
}

// Dirs is an FS of some directories that are held open, and of the files right in them. Names
// are those of the FS that has opened it, but they are looked up in the open directories: a
// name means the same file after its directory was renamed, and never a file of another
// directory that has taken its place. Errors and File.Name have the name as it was given. All
// other names don't exist.
//
// Systems without a call that opens a file in an open directory (wasm) look names
// up by path.
type Dirs interface {
	FS
	// Close closes the directories. Calls return fs.ErrClosed from now on. Files and locks
	// stay open.
	io.Closer
}

// Info describes a file or directory.
type Info struct {
	Size    int64 // in bytes; of a directory it says nothing
	IsDir   bool
	ModTime time.Time // zero where the file system keeps none

	// file is what tells the file from others: an os.FileInfo, or a node of a Mem; nil = not known.
	file any
}

// Same reports whether two names mean one file or directory of fsys, however they are written:
// x and ./x, or a symbolic link and what it leads to. Names of what isn't there, and those of an
// FS other than OS and Mem, are the same if they are so after filepath.Clean.
func Same(fsys FS, a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, err := fsys.Stat(a)
	if err != nil {
		return false
	}
	other, err := fsys.Stat(b)
	return err == nil && one.same(other)
}

// same reports whether two descriptions are of one file.
func (i Info) same(other Info) bool {
	if a, ok := i.file.(fs.FileInfo); ok {
		b, ok := other.file.(fs.FileInfo)
		return ok && os.SameFile(a, b)
	}
	return i.file != nil && i.file == other.file
}

// File is an open file. Its methods may run together, with two exceptions: don't
// write a range while others read or write it, and call nothing after Close.
type File interface {
	// ReadAt returns io.EOF if the file ends before len(p) bytes, as io.ReaderAt says.
	io.ReaderAt
	// WriteAt extends the file if need be.
	io.WriterAt
	io.Closer
	// Name returns the name by which the file was opened.
	Name() string
	// WriteVec writes the buffers one after the other at off, as WriteAt would
	// write their concatenation, and in as few calls as it can.
	WriteVec(bufs [][]byte, off int64) (int, error)
	// Truncate sets the size; new bytes are zero.
	Truncate(size int64) error
	// Sync makes content and size durable, down to the medium. After a failed Sync
	// it is not known what is durable, and a second Sync that succeeds proves
	// nothing (Rebello et al., "Can Applications Recover from fsync Failures?",
	// USENIX ATC 2020).
	Sync() error
	// SyncData is Sync without what reading back doesn't need, such as times.
	SyncData() error
	// StartWriteback asks the system to begin writing a range in the
	// background. It is a hint and promises nothing.
	StartWriteback(off, n int64)
	// StartRead asks the system to begin reading a range in the background, so that a
	// later ReadAt, or touch of a mapping, waits less. It is a hint and promises nothing.
	StartRead(off, n int64)
	// Size returns the size of the file now.
	Size() (int64, error)
	// Map maps the first size bytes for reading. Where size exceeds the size
	// of the file, bytes become readable as the file grows; touching a byte beyond
	// its end is a memory fault. Pages will be touched in any order, so the system should
	// read none ahead. Implementations may return errors.ErrUnsupported, always or only for
	// files that may still grow.
	Map(size int64) (Mapping, error)
}

// Mapping is a part of a file seen as memory. It outlives the File.
type Mapping interface {
	// Data returns the mapped memory. Don't write to it, and don't touch it after Close.
	Data() []byte
	// Close unmaps Data; a second Close does nothing.
	Close() error
}
