package pageio

import (
	"sync"

	"github.com/brockdb/brock/vfs"
)

// BlockSize is the size of the largest page in which a system keeps a file in
// memory. Linux makes such a page when one write fills it from its first byte to
// its last; random reads through a mapping of small pages mostly wait for the
// translation of addresses.
const BlockSize = 2 << 20

var blockPool = sync.Pool{New: func() any { b := make([]byte, 0, BlockSize); return &b }}

// Appender writes a file from front to back, whole blocks at a time. It is used
// by one goroutine, and ended by Flush or Drop.
type Appender struct {
	f   vfs.File
	at  int64   // where buf goes in the file
	buf *[]byte // of the pool; nil while empty
}

// NewAppender returns an Appender that begins at the start of f.
func NewAppender(f vfs.File) *Appender { return &Appender{f: f} }

// Write appends p, which may be used again at once. It may reach the file only
// with a later Write or Flush, and so may its error.
func (a *Appender) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if a.buf == nil {
			a.buf = blockPool.Get().(*[]byte)
		}
		n := min(len(rest), BlockSize-len(*a.buf))
		*a.buf = append(*a.buf, rest[:n]...)
		rest = rest[n:]
		if len(*a.buf) == BlockSize {
			if err := a.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// Flush hands what was written so far to the file.
func (a *Appender) Flush() error {
	if a.buf == nil {
		return nil
	}
	_, err := a.f.WriteAt(*a.buf, a.at)
	a.f.StartWriteback(a.at, int64(len(*a.buf)))
	a.at += int64(len(*a.buf))
	a.Drop()
	return err
}

// Drop forgets what has not been handed to the file.
func (a *Appender) Drop() {
	if a.buf != nil {
		*a.buf = (*a.buf)[:0]
		blockPool.Put(a.buf)
		a.buf = nil
	}
}
