package pageio

import (
	"runtime"
	"sync/atomic"
	"time"
)

// ReadCold is ReadFull for bytes that may have to come from the disk; see Known. The
// system has their pages in memory afterwards, which is noted.
//
// A read of some microseconds doesn't give its processor of the Go scheduler away, so
// no more of them would be under way than there are such processors. So the system is
// asked to begin the read; then, if others of the store are under way, the other
// goroutines run and begin theirs.
func (f *File) ReadCold(p []byte, off int64) error {
	if err := f.check(off, int64(len(p))); err != nil || len(p) == 0 {
		return err
	}
	d, err := f.enter()
	if err != nil {
		return err
	}
	defer f.files.leave(d)
	if f.data == nil {
		return f.readFrom(d, p, off) // it may be in memory, as far as is known
	}
	f.files.cold.begin(d, off, int64(len(p)))
	defer f.files.cold.end()
	if err := f.readFrom(d, p, off); err != nil {
		return err
	}
	f.note(off/pageSize, (off+int64(len(p))-1)/pageSize)
	return nil
}

// readers are those of a store that read from the disk.
type readers struct {
	reading atomic.Int64 // how many do
	began   time.Time    // of what windows are counted from

	// Yielding doesn't pay in a program with more goroutines that compute than
	// processors: a yield may then last 10 ms for each of them. So it is measured.
	until   atomic.Int64 // when the window ends in which they yield, or don't
	plain   atomic.Bool  // they don't
	yields  atomic.Int64 // in this window
	yielded atomic.Int64 // nanoseconds, all of them
}

// The windows, and how long a yield may take in the mean: as long as the readers that
// run meanwhile need, and not as long as others compute.
const (
	yieldWindow   = 20 * time.Millisecond
	plainWindow   = 100 * time.Millisecond
	yieldTime     = 500 * time.Microsecond
	yieldOfReader = 50 * time.Microsecond
)

// begin counts the caller as reading, has the n bytes at off of d on their way, and
// yields if others read as well.
func (r *readers) begin(d *descriptor, off, n int64) {
	// Also if it is alone: a pread by itself would have the system read on behind it.
	d.StartRead(off, n)
	if r.reading.Add(1) == 1 {
		return
	}
	now := time.Since(r.began)
	if !r.yield(now) {
		return
	}
	runtime.Gosched()
	r.yielded.Add(int64(time.Since(r.began) - now))
	r.yields.Add(1)
}

func (r *readers) end() { r.reading.Add(-1) }

// yield reports whether readers yield now.
func (r *readers) yield(now time.Duration) bool {
	end := r.until.Load()
	if int64(now) < end {
		return !r.plain.Load()
	}
	n := r.yields.Load()
	plain := n > 0 && time.Duration(r.yielded.Load()/n) > yieldTime+yieldOfReader*time.Duration(r.reading.Load())
	window := yieldWindow
	if plain {
		window = plainWindow
	}
	if r.until.CompareAndSwap(end, int64(now+window)) {
		r.plain.Store(plain)
		r.yields.Store(0)
		r.yielded.Store(0)
	}
	return !plain
}
