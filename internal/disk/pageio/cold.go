package pageio

import (
	"runtime"
	"sync/atomic"
	"time"
)

// ReadCopy fills p with the bytes at off: from the mapping if their pages are known to be in
// memory, else by a read.
func (f *File) ReadCopy(p []byte, off int64) (err error) {
	if !f.Known(off, len(p)) {
		return f.readCold(p, off)
	}
	// A copy of pages in memory can't block in a page fault.
	defer Guard(Arm(), &err, f.name)
	copy(p, f.data[off:])
	return nil
}

// readCold is ReadFull for bytes that may have to come from the disk; see Known. The
// system has their pages in memory afterwards, which is noted.
//
// A read of some microseconds doesn't give its processor of the Go scheduler away, so
// no more of them would be under way than there are such processors. So the system is
// asked to begin the read; then, if others of the store are under way, the other
// goroutines run and begin theirs.
func (f *File) readCold(p []byte, off int64) error {
	if err := f.checkRange(off, int64(len(p))); err != nil || len(p) == 0 {
		return err
	}
	d, err := f.openForRead()
	if err != nil {
		return err
	}
	defer f.files.releaseDescriptor(d)
	if f.data == nil {
		return ReadFull(d, p, off) // it may be in memory, as far as is known
	}
	f.files.coldReaders.beginRead(d, off, int64(len(p)))
	defer f.files.coldReaders.endRead()
	if err := ReadFull(d, p, off); err != nil {
		return err
	}
	f.noteResident(off/PageSize, (off+int64(len(p))-1)/PageSize)
	return nil
}

// readers are those of a store that read from the disk.
type readers struct {
	reading atomic.Int64 // how many do now
	reads   atomic.Int64 // reads that have ended
	began   time.Time    // times below are counted from here

	// Yielding doesn't pay in a program with more goroutines that compute than
	// processors: a yield may then last 10 ms for each of them. So it is measured, in
	// windows of time.
	until   atomic.Int64 // when the window ends, in nanoseconds
	plain   atomic.Bool  // readers don't yield in it
	yields  atomic.Int64
	yielded atomic.Int64 // nanoseconds, all of them
}

// The windows, and how long a yield may take in the mean: as long as the readers that
// run meanwhile need, and not as long as others compute.
const (
	tryWindow     = 20 * time.Millisecond
	plainWindow   = 100 * time.Millisecond
	yieldTime     = 500 * time.Microsecond
	yieldOfReader = 50 * time.Microsecond
)

// beginRead counts the caller as reading, has the n bytes at off of d on their way, and
// yields if others read as well.
func (r *readers) beginRead(d *descriptor, off, n int64) {
	// Also if it is alone: a pread by itself would have the system read on behind it.
	d.StartRead(off, n)
	// Nobody else reads, so there is nobody to yield to.
	if r.reading.Add(1) == 1 {
		return
	}
	now := time.Since(r.began)
	if !r.shouldYield(now) {
		return
	}
	runtime.Gosched()
	r.yielded.Add(int64(time.Since(r.began) - now))
	r.yields.Add(1)
}

// endRead counts a read that has ended.
func (r *readers) endRead() {
	r.reading.Add(-1)
	r.reads.Add(1)
}

// wereReading reports whether readers wait for the disk, or have done since the call before, which
// has left seen: background work then asks it for little at a time.
func (r *readers) wereReading(seen *int64) bool {
	before := *seen
	*seen = r.reads.Load()
	return *seen != before || r.reading.Load() > 0
}

// shouldYield reports whether readers yield now. Where yields took long in a window, they do
// without for a longer one, and then try again.
func (r *readers) shouldYield(now time.Duration) bool {
	until := r.until.Load()
	// One reader ends the window.
	if int64(now) >= until && r.until.CompareAndSwap(until, int64(now+tryWindow)) {
		yields, yielded := r.yields.Swap(0), r.yielded.Swap(0)
		slow := yielded > yields*int64(yieldTime+yieldOfReader*time.Duration(r.reading.Load()))
		r.plain.Store(slow)
		if slow {
			r.until.Store(int64(now + plainWindow))
		}
	}
	return !r.plain.Load()
}
