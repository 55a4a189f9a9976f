package vfs

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// largeFiles lets 32-bit programs open files of 2 GiB and more.
const largeFiles = unix.O_LARGEFILE

const (
	renameNoReplace = unix.RENAME_NOREPLACE
	renameExchange  = unix.RENAME_EXCHANGE
)

func renameAt(oldDir int, old string, newDir int, new string, flags uint) error {
	return unix.Renameat2(oldDir, old, newDir, new, flags)
}

// syncData is fdatasync: it leaves out times, but not a new length.
func syncData(f *os.File) error { return withFD(f, unix.Fdatasync) }

// clone makes b a file of the same blocks as a.
func clone(a, b *os.File) error {
	err := withFD(a, func(from int) error {
		return withFD(b, func(to int) error { return unix.IoctlFileClone(to, from) })
	})
	if err != nil {
		return errors.ErrUnsupported // by this file system, or across two of them
	}
	return nil
}

// startWriteback begins to write dirty pages of a range; it makes nothing durable.
func startWriteback(f *os.File, off, n int64) {
	_ = withFD(f, func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// startReadBytes is how many bytes of a range the system reads at least. It may leave out the rest
// of a longer range.
const startReadBytes = 128 << 10

// startRead begins to read a range into the page cache.
func startRead(f *os.File, off, n int64) {
	_ = withFD(f, func(fd int) error {
		for ; n > 0; off, n = off+startReadBytes, n-startReadBytes {
			if err := unix.Fadvise(fd, off, min(n, startReadBytes), unix.FADV_WILLNEED); err != nil {
				return err
			}
		}
		return nil
	})
}

const maxVec = 1024 // buffers a pwritev takes

// writeVec writes the buffers by as few calls of pwritev as possible.
func writeVec(f *os.File, bufs [][]byte, off int64) (written int, err error) {
	for batch := range slices.Chunk(bufs, maxVec) {
		var n int
		err = withFD(f, func(fd int) (err error) {
			n, err = unix.Pwritev(fd, batch, off+int64(written))
			return err
		})
		if err != nil {
			return written, pathError("writevec", f.Name(), err)
		}
		for _, p := range batch {
			done := min(n, len(p))
			n, written = n-done, written+done
			if done < len(p) {
				// A short write, as on a disk that gets full: the rest is written one by one.
				m, err := f.WriteAt(p[done:], off+int64(written))
				if written += m; err != nil {
					return written, err
				}
			}
		}
	}
	return written, nil
}
