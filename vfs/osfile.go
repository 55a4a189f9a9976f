package vfs

import (
	"io"
	"os"
	"sync"
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

const gatherSize = 64 << 10 // buffers below half of it are copied together

type gatherBuffer [gatherSize]byte

var gatherPool = sync.Pool{New: func() any { return new(gatherBuffer) }}

// gather writes buffers on systems without a call for several buffers. It first copies small
// ones together, as a call costs more than the copy.
func gather(w io.WriterAt, bufs [][]byte, off int64) (written int, err error) {
	scratch := gatherPool.Get().(*gatherBuffer)
	defer gatherPool.Put(scratch)
	// After an error nothing more is written: written is a prefix.
	put := func(p []byte) {
		if err == nil && len(p) > 0 {
			var n int
			n, err = w.WriteAt(p, off+int64(written))
			written += n
		}
	}
	held := 0
	for _, p := range bufs {
		if held+len(p) > gatherSize {
			put(scratch[:held])
			held = 0
		}
		if len(p) > gatherSize/2 {
			put(scratch[:held])
			held = 0
			put(p)
			continue
		}
		held += copy(scratch[held:], p)
	}
	put(scratch[:held])
	return written, err
}
