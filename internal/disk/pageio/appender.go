package pageio

import (
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/vfs"
)

// BlockSize is the size of the largest page in which a system keeps a file in
// memory. Linux makes such a page when one write fills it from its first byte to
// its last; random reads through a mapping of small pages mostly wait for the
// translation of addresses.
const BlockSize = 2 << 20

// Appender writes a file from front to back, whole blocks at a time. It is used
// by one goroutine, and ended by Flush or Drop, which give back its block. That
// lies off the Go heap, on which the collector would let garbage grow by as much
// again.
type Appender struct {
	f     vfs.File
	at    int64  // offset in the file where block goes
	block []byte // nil while nothing is in it
	n     int    // bytes in it
}

// NewAppender returns an Appender that begins at the start of f.
func NewAppender(f vfs.File) *Appender { return &Appender{f: f} }

// Write appends p, which may be used again at once. It may reach the file only
// with a later Write or Flush, and so may its error.
func (a *Appender) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if a.block == nil {
			var err error
			if a.block, err = offheap.Alloc(BlockSize); err != nil {
				return 0, err
			}
		}
		n := copy(a.block[a.n:], rest)
		a.n += n
		rest = rest[n:]
		if a.n == BlockSize {
			if err := a.hand(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// hand hands what is in the block to the file.
func (a *Appender) hand() error {
	_, err := a.f.WriteAt(a.block[:a.n], a.at)
	// The disk begins while the next block is filled, so the sync at the end is short.
	a.f.StartWriteback(a.at, int64(a.n))
	a.at += int64(a.n)
	a.n = 0
	return err
}

// Flush hands what was written so far to the file.
func (a *Appender) Flush() error {
	defer a.Drop()
	if a.n == 0 {
		return nil
	}
	return a.hand()
}

// Drop drops what was not yet written to the file.
func (a *Appender) Drop() {
	if a.block != nil {
		err := offheap.Free(a.block) // can only fail for other memory
		invariant.Check(err == nil, "free a block: %v", err)
		a.block, a.n = nil, 0
	}
}
