package failure

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// FS returns base with errors that Of knows. Reads and writes that a signal has
// interrupted, or that the system says to repeat, are repeated at once. Once the sync of a
// directory has failed, each later one of it fails.
func FS(base vfs.FS) vfs.FS { return files{base, &dirSyncs{failed: map[string]error{}}} }

// files is what FS returns.
type files struct {
	vfs.FS
	dirSyncs *dirSyncs
}

// dirSyncs makes the syncs of directories take turns, and knows those that failed.
type dirSyncs struct {
	mu     sync.Mutex
	failed map[string]error // the first error of each directory
}

// wrap returns the file that was opened, with errors that Of knows.
func (s files) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, unchanged(err)
	}
	return file{f}, nil
}

func (s files) Create(name string) (vfs.File, error)        { return s.wrap(s.FS.Create(name)) }
func (s files) Open(name string) (vfs.File, error)          { return s.wrap(s.FS.Open(name)) }
func (s files) OpenReadWrite(name string) (vfs.File, error) { return s.wrap(s.FS.OpenReadWrite(name)) }
func (s files) Remove(name string) error                    { return unchanged(s.FS.Remove(name)) }
func (s files) Rename(from, to string) error                { return unchanged(s.FS.Rename(from, to)) }
func (s files) Link(from, to string) error                  { return unchanged(s.FS.Link(from, to)) }
func (s files) Clone(from, to string) error                 { return unchanged(s.FS.Clone(from, to)) }
func (s files) MkdirAll(dir string) error                   { return unchanged(s.FS.MkdirAll(dir)) }

func (s files) List(dir string) ([]string, error) {
	names, err := s.FS.List(dir)
	return names, unchanged(err)
}

func (s files) Free(dir string) (int64, error) {
	n, err := s.FS.Free(dir)
	return n, unchanged(err)
}

func (s files) Stat(name string) (vfs.Info, error) {
	info, err := s.FS.Stat(name)
	return info, unchanged(err)
}

func (s files) Lock(name string, shared bool) (io.Closer, error) {
	l, err := s.FS.Lock(name, shared)
	if errors.Is(err, errs.ErrLocked) {
		return nil, err
	}
	return l, unchanged(err)
}

func (s files) OpenDirs(names ...string) (vfs.Dirs, error) {
	d, err := s.FS.OpenDirs(names...)
	if err != nil {
		return nil, unchanged(err)
	}
	return dirs{files{d, s.dirSyncs}, d}, nil
}

// dirs are directories that are held open.
type dirs struct {
	files
	held io.Closer
}

func (d dirs) Close() error { return unchanged(d.held.Close()) }

// SyncDir has to open the directory on some systems. Then nothing was synced, and
// nothing was lost, if there was no descriptor. After any other failure, a name that
// was not durable before may never become so, and a sync that succeeds says nothing of it:
// the files of one goroutine would depend on which other one's sync has failed.
func (s files) SyncDir(dir string) error {
	s.dirSyncs.mu.Lock()
	defer s.dirSyncs.mu.Unlock()
	if err := s.dirSyncs.failed[dir]; err != nil {
		return err
	}
	err := s.FS.SyncDir(dir)
	if vfs.IsOutOfFiles(err) {
		return unchanged(err)
	}
	if err != nil {
		// Remembered: the system reports a failed sync once, and perhaps to another goroutine than
		// the one whose name was lost.
		s.dirSyncs.failed[dir] = &marked{fmt.Errorf("an earlier sync of the directory has failed: %w", err), errFinal}
	}
	return unknown(err)
}

// file is an open file.
type file struct{ vfs.File }

func (f file) ReadAt(p []byte, off int64) (n int, err error) {
	err = repeat(func() error {
		// What was read before the interruption is kept.
		m, err := f.File.ReadAt(p[n:], off+int64(n))
		n += m
		return err
	})
	return n, unchanged(err)
}

func (f file) WriteAt(p []byte, off int64) (n int, err error) {
	err = repeat(func() error {
		m, err := f.File.WriteAt(p[n:], off+int64(n))
		n += m
		return err
	})
	return n, written(n, err)
}

func (f file) WriteVec(bufs [][]byte, off int64) (n int, err error) {
	err = repeat(func() error {
		m, err := f.File.WriteVec(skipBytes(bufs, n), off+int64(n))
		n += m
		return err
	})
	return n, written(n, err)
}

// skipBytes returns bufs without their first n bytes.
func skipBytes(bufs [][]byte, n int) [][]byte {
	for n > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		// The caller's slice stays as it is.
		return slices.Concat([][]byte{bufs[0][n:]}, bufs[1:])
	}
	return bufs
}

// written marks the error of a write of which n bytes were done. One that has only been
// interrupted, again and again, has done nothing else. One for which the system had no memory may
// have done a part, as on a full disk.
func written(n int, err error) error {
	if n == 0 && vfs.IsInterrupted(err) || vfs.IsOutOfMemory(err) {
		return unchanged(err)
	}
	return unknown(err)
}

// Sync marks errors as final. A sync that was interrupted is not repeated: nobody knows what the
// second one would leave out.
func (f file) Sync() error     { return unknown(f.File.Sync()) }
func (f file) SyncData() error { return unknown(f.File.SyncData()) }

func (f file) Truncate(size int64) error { return unknown(f.File.Truncate(size)) }
func (f file) Close() error              { return unknown(f.File.Close()) }

func (f file) Size() (int64, error) {
	n, err := f.File.Size()
	return n, unchanged(err)
}

func (f file) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return m, unchanged(err)
}

// attempts is how often an interrupted call is made.
const attempts = 16

// repeat makes a call again while it is interrupted.
func repeat(call func() error) (err error) {
	for range attempts {
		if err = call(); !vfs.IsInterrupted(err) {
			break
		}
	}
	return err
}
