package pageio

import "time"

// Stream reads a file from front to back, for background work that needs each byte once:
// by large requests, while the disk is at work on the next one, and out of the way of
// readers. It is used by one goroutine; its file must stay open.
type Stream struct {
	f     *File
	end   int64         // read-ahead ends here
	asked int64         // offset up to which reads were started
	seen  int64         // the counter of readers' reads at the last look
	took  time.Duration // how long the last read took
}

const (
	streamAhead     = 1 << 20   // bytes that the disk is asked for beyond those that are read
	busyPart        = 128 << 10 // bytes that are read at a time while readers wait for the disk
	busyPauseFactor = 2         // a pause takes this many times as long as the read before it,
	longestPause    = 10 * time.Millisecond
)

// Stream returns a Stream that asks for no byte from end on.
func (f *File) Stream(end int64) Stream { return Stream{f: f, end: min(end, f.size)} }

// ReadFull is File.ReadFull; most often p is what follows the bytes that were read before.
//
// The disk is never asked for more than p and streamAhead. While readers wait for the
// disk, it is asked for small parts, one by one: each delays readers by no more than it
// takes itself, and a pause of twice that time follows.
func (s *Stream) ReadFull(p []byte, off int64) error {
	f := s.f
	if err := f.checkRange(off, int64(len(p))); err != nil {
		return err
	}
	d, err := f.openForRead()
	if err != nil {
		return err
	}
	defer f.files.releaseDescriptor(d)
	for len(p) > 0 {
		n, ahead := len(p), int64(streamAhead)
		if f.files.coldReaders.wereReading(&s.seen) {
			n, ahead = min(n, busyPart), 0
			time.Sleep(min(busyPauseFactor*s.took, longestPause))
		}
		s.askAhead(d, off, int64(n), ahead)
		begin := time.Now()
		if err := ReadFull(d, p[:n], off); err != nil {
			return err
		}
		s.took = time.Since(begin)
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// askAhead has the disk asked for what of n bytes at off it was not asked for, and for more: for
// ahead bytes behind them once half of these were read.
func (s *Stream) askAhead(d *descriptor, off, n, ahead int64) {
	if s.asked < off || s.asked > off+n+streamAhead { // not where the last read ended
		s.asked = off
	}
	if s.asked >= min(off+n+ahead/2, s.end) {
		return
	}
	end := min(off+n+ahead, s.end)
	d.StartRead(s.asked, end-s.asked)
	s.asked = end
}
