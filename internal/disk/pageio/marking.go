package pageio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// MarkErrors returns base with errors that are marked for errs.ClassOf as refused or final. Reads and writes that a
// signal has interrupted, or that the system says to repeat, are repeated at once. Once the sync of
// a directory has failed, each later one of it fails.
func MarkErrors(base vfs.FS) vfs.FS { return markingFS{base, &dirSyncs{failed: map[string]error{}}} }

// markingFS is what MarkErrors returns.
type markingFS struct {
	vfs.FS
	dirSyncs *dirSyncs
}

// dirSyncs makes the syncs of directories take turns, and knows those that failed.
type dirSyncs struct {
	mu     sync.Mutex
	failed map[string]error // the first error of each directory
}

// wrap returns the file that was opened, which marks its errors.
func (s markingFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, markRefused(err)
	}
	return markingFile{f}, nil
}

func (s markingFS) Create(name string) (vfs.File, error) { return s.wrap(s.FS.Create(name)) }
func (s markingFS) Open(name string) (vfs.File, error)   { return s.wrap(s.FS.Open(name)) }
func (s markingFS) OpenReadWrite(name string) (vfs.File, error) {
	return s.wrap(s.FS.OpenReadWrite(name))
}
func (s markingFS) Remove(name string) error     { return markRefused(s.FS.Remove(name)) }
func (s markingFS) Rename(from, to string) error { return markRefused(s.FS.Rename(from, to)) }
func (s markingFS) Link(from, to string) error   { return markRefused(s.FS.Link(from, to)) }
func (s markingFS) Clone(from, to string) error  { return markRefused(s.FS.Clone(from, to)) }
func (s markingFS) MkdirAll(dir string) error    { return markRefused(s.FS.MkdirAll(dir)) }

func (s markingFS) List(dir string) ([]string, error) {
	names, err := s.FS.List(dir)
	return names, markRefused(err)
}

func (s markingFS) Free(dir string) (int64, error) {
	n, err := s.FS.Free(dir)
	return n, markRefused(err)
}

func (s markingFS) Stat(name string) (vfs.Info, error) {
	info, err := s.FS.Stat(name)
	return info, markRefused(err)
}

func (s markingFS) Lock(name string, shared bool) (io.Closer, error) {
	l, err := s.FS.Lock(name, shared)
	if errors.Is(err, errs.ErrLocked) {
		return nil, err
	}
	return l, markRefused(err)
}

func (s markingFS) OpenDirs(names ...string) (vfs.Dirs, error) {
	d, err := s.FS.OpenDirs(names...)
	if err != nil {
		return nil, markRefused(err)
	}
	return markingDirs{markingFS{d, s.dirSyncs}, d}, nil
}

// markingDirs are directories that are held open.
type markingDirs struct {
	markingFS
	held io.Closer
}

func (d markingDirs) Close() error { return markRefused(d.held.Close()) }

// SyncDir has to open the directory on some systems. Without a free descriptor it was not opened,
// so nothing was lost. After any other failure a name that was not durable before may never become
// so, and a later sync that succeeds says nothing of it: the failed one may have been another
// goroutine's.
func (s markingFS) SyncDir(dir string) error {
	s.dirSyncs.mu.Lock()
	defer s.dirSyncs.mu.Unlock()
	if err := s.dirSyncs.failed[dir]; err != nil {
		return err
	}
	err := s.FS.SyncDir(dir)
	if vfs.IsOutOfFiles(err) {
		return markRefused(err)
	}
	if err != nil {
		// Remembered: the system reports a failed sync once, and perhaps to another goroutine than
		// the one whose name was lost.
		s.dirSyncs.failed[dir] = errs.MarkFinal(fmt.Errorf("an earlier sync of the directory has failed: %w", err))
	}
	return markFinal(err)
}

// markingFile is an open file.
type markingFile struct{ vfs.File }

func (f markingFile) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = repeat(func(done int) (int, error) { return f.File.ReadAt(p[done:], off+int64(done)) })
	return n, markRefused(err)
}

func (f markingFile) WriteAt(p []byte, off int64) (n int, err error) {
	n, err = repeat(func(done int) (int, error) { return f.File.WriteAt(p[done:], off+int64(done)) })
	return n, markWrite(n, err)
}

func (f markingFile) WriteVec(bufs [][]byte, off int64) (n int, err error) {
	n, err = repeat(func(done int) (int, error) {
		if done == 0 {
			return f.File.WriteVec(bufs, off)
		}
		// Seldom enough to be copied.
		return f.File.WriteAt(slices.Concat(bufs...)[done:], off+int64(done))
	})
	return n, markWrite(n, err)
}

// markWrite marks the error of a write of which n bytes were done. An interrupted write without
// progress has changed nothing. One for which the system had no memory may have done a part, as on
// a full disk.
func markWrite(n int, err error) error {
	if n == 0 && vfs.IsInterrupted(err) || vfs.IsOutOfMemory(err) {
		return markRefused(err)
	}
	return markFinal(err)
}

// Sync marks errors as final. A sync that was interrupted is not repeated: nobody knows what the
// second one would leave out.
func (f markingFile) Sync() error     { return markFinal(f.File.Sync()) }
func (f markingFile) SyncData() error { return markFinal(f.File.SyncData()) }

func (f markingFile) Truncate(size int64) error { return markFinal(f.File.Truncate(size)) }
func (f markingFile) Close() error              { return markFinal(f.File.Close()) }

func (f markingFile) Size() (int64, error) {
	n, err := f.File.Size()
	return n, markRefused(err)
}

func (f markingFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return m, markRefused(err)
}

// attempts is how often an interrupted call is made.
const attempts = 16

// repeat makes a call again while it is interrupted, for what it has not done yet. It returns how
// many bytes were done in all.
func repeat(call func(done int) (int, error)) (done int, err error) {
	for range attempts {
		var n int
		n, err = call(done)
		if done += n; !vfs.IsInterrupted(err) {
			break
		}
	}
	return done, err
}

// markRefused marks the error of a call that changes nothing if it fails. What is absent
// is no failure, and stays so however often one asks.
func markRefused(err error) error {
	// These say something else than that the system has refused.
	if err == nil || err == io.EOF || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) || vfs.IsNoSpace(err) {
		return vfs.NoSpace(err)
	}
	return errs.MarkRefused(err)
}

// markFinal marks the error of a call that may have done anything.
func markFinal(err error) error {
	if err == nil || errors.Is(err, errors.ErrUnsupported) || vfs.IsNoSpace(err) {
		return vfs.NoSpace(err)
	}
	return errs.MarkFinal(err)
}
