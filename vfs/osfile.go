package vfs

import (
	"io"
	"os"
	"slices"
)

// osFile is a file of the operating system. What differs between systems is in
// the functions that it calls with the os.File.
type osFile struct{ *os.File }

// SyncData implements File.
func (f osFile) SyncData() error {
	if err := syncData(f.File); err != nil {
		return pathError("syncdata", f.Name(), err)
	}
	return nil
}

// StartWriteback implements File.
func (f osFile) StartWriteback(off, n int64) { startWriteback(f.File, off, n) }

// StartRead implements File.
func (f osFile) StartRead(off, n int64) { startRead(f.File, off, n) }

// Size implements File.
func (f osFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

// Map implements File.
func (f osFile) Map(size int64) (Mapping, error) {
	m, err := mapFile(f.File, size)
	if err != nil {
		return nil, pathError("map", f.Name(), err)
	}
	return m, nil
}

// WriteVec implements File.
func (f osFile) WriteVec(bufs [][]byte, off int64) (int, error) {
	if len(bufs) == 1 {
		return f.WriteAt(bufs[0], off)
	}
	return writeVec(f.File, bufs, off)
}

// gatherSize is how many bytes of small buffers gather copies together, at most.
const gatherSize = 64 << 10

// writeGathered writes buffers on systems without a call for several buffers. It copies small ones
// together, as a call costs more than the copy.
func writeGathered(w io.WriterAt, bufs [][]byte, off int64) (written int, err error) {
	for len(bufs) > 0 && err == nil {
		// As many as fit; one that is larger goes alone, without a copy.
		n, size := 1, len(bufs[0])
		for n < len(bufs) && size+len(bufs[n]) <= gatherSize {
			size += len(bufs[n])
			n++
		}
		p := bufs[0]
		if n > 1 {
			p = slices.Concat(bufs[:n]...)
		}
		var m int
		m, err = w.WriteAt(p, off+int64(written))
		written, bufs = written+m, bufs[n:]
	}
	return written, err
}
