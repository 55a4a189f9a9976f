package journal

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// unproven tracks the frames of a replay that nothing proves to have been durable: the last
// ones. It knows the place where they begin, or one a little before.
type unproven struct {
	proven uint64 // greatest frame number known to be durable
	marks  []mark // ascending; the first one is at or before the first frame in doubt
}

// mark says where a frame is.
type mark struct {
	frame  uint64
	file   entry.FileNum
	offset int64 // 0 if it's the first of its segment, whose header is in doubt too
}

// markEvery is how much of the journal lies between two marks.
const markEvery = 64 << 10

// addFrame notes a valid frame of the segment with this number.
func (d *unproven) addFrame(f *segment.Found, num entry.FileNum) {
	m := mark{frame: f.Header.Number, file: num, offset: f.Offset}
	// If the first frame is in doubt, so is the header page before it.
	if f.Offset == segment.HeaderSize {
		m.offset = 0
	}
	// A mark every 64 KiB is enough: writing a little more again does no harm.
	if n := len(d.marks); n == 0 || d.marks[n-1].file != num || m.offset-d.marks[n-1].offset >= markEvery {
		d.marks = append(d.marks, m)
	}
	// A frame that proves an earlier one durable takes that out of doubt.
	d.proven = max(d.proven, f.Header.Durable())
	for len(d.marks) > 1 && d.marks[1].frame <= d.proven+1 {
		d.marks = d.marks[1:]
	}
}

// firstUnproven returns where writing again has to begin, in a chain that ends with the frame last;
// ok is false if all frames are proven.
func (d *unproven) firstUnproven(last uint64) (m mark, ok bool) {
	if last <= d.proven || len(d.marks) == 0 {
		return mark{}, false
	}
	return d.marks[0], true
}

// secured tracks the segments of the chain that are durable or being made so. What was replayed
// has to be durable before anything that relies on it is written. The process that wrote the
// last frames may have been killed before its sync. Then a sync would do. But its sync may also
// have failed. Then the system takes the pages for written, and another sync would not write
// them. So the frames in doubt are written again, as they are.
//
// A segment may be written again once it was read to its end, all of it was given to fn, and no
// damage behind it can have the journal refused any more: what is refused stays untouched.
// Damage refuses a journal only up to the last frame that anything proves durable (judgeEnd).
type secured struct {
	begun  int // segments
	all    sync.WaitGroup
	free   chan struct{}
	mu     sync.Mutex // guards:
	failed error
}

// securedTogether is how many files are made durable at the same time, at most. Each
// takes a descriptor and up to 256 KiB of memory.
const securedTogether = 2

// secureInBackground calls secure in the background. One file is copied while another is on its way
// to the disk.
func (s *secured) secureInBackground(secure func() error) {
	s.all.Go(func() {
		// Bounds descriptors and memory, not the number of goroutines.
		s.free <- struct{}{}
		defer func() { <-s.free }()
		if err := secure(); err != nil {
			s.mu.Lock()
			s.failed = errors.Join(s.failed, err)
			s.mu.Unlock()
		}
	})
}

// waitForCopies returns when nothing is on its way any more.
func (s *secured) waitForCopies() error {
	s.all.Wait()
	return s.failed
}

// none is a number that no frame has.
const none = math.MaxUint64

// foreseen is the least number of segments for which foreseeDurable pays: it reads the last one.
const foreseen = 4

// foreseeDurable returns the number of the last frame that anything proves durable, before the
// segments are read: then secure may begin with the first ones while later ones are read. It
// returns none where that doesn't pay, with fewer than two segments in doubt. It reads only
// the last segment: a later frame never proves less than an earlier one.
func (r *replay) foreseeDurable() uint64 {
	n := len(r.found)
	// ReadOnly makes nothing durable, UpTo may stop at any frame, and of a closed journal nothing
	// is in doubt. With few segments the read of the last one costs more than it gains.
	if r.c.ReadOnly || r.c.UpTo || r.c.Known.Closed || n < foreseen || r.found[n-1].bad != nil {
		return none
	}
	last := r.found[n-1]
	begin := emptySegment(&last.header)
	rd, err := r.openSegment(&begin)
	if err != nil {
		return none // replaySegment tells of it
	}
	defer rd.Close()
	s, durable := rd.Frames(false), r.c.Known.LastProven()
	for {
		f, err := s.Next()
		if err != nil {
			break
		}
		if durable = max(durable, f.Header.Durable()); durable >= r.found[n-2].header.FirstFrame() {
			return none // as it is where commits are synced
		}
	}
	t, err := segment.SearchTail(r.c.Config, filename.Journal, last.header.Number, s.At().Offset, s.At().Number+1)
	// The last segment has no frame, so it says nothing of those before.
	if err != nil || t.Frames == 0 && s.At().Number < last.header.FirstFrame() {
		return none
	}
	return max(durable, t.Durable)
}

// secureVisited begins to make durable the segments that were visited since its last call.
func (r *replay) secureVisited() {
	from, again := r.unproven.firstUnproven(r.point.Number)
	for ; r.secured.begun < len(r.out.Segments); r.secured.begun++ {
		s := r.out.Segments[r.secured.begun]
		offset := s.Offset
		// Before the first frame in doubt a sync is enough. That segment is written again from its
		// mark on, and later ones as a whole, with their headers.
		switch {
		case again && s.File == from.file:
			offset = from.offset
		case again && s.File > from.file:
			offset = 0
		}
		r.secured.secureInBackground(func() error { return r.secureSegment(s, offset) })
	}
}

// secureSegment writes what lies between offset and the end again, and syncs the file.
func (r *replay) secureSegment(s SegmentInfo, offset int64) (err error) {
	name := filename.Of(filename.Journal, s.File)
	defer func() {
		if err != nil {
			err = fmt.Errorf("make %s durable: %w", name, err)
		}
	}()
	f, err := r.c.FS.OpenReadWrite(filepath.Join(r.c.Dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, max(0, min(s.Offset-offset, 256<<10)))
	for offset < s.Offset {
		p := buf[:min(int64(len(buf)), s.Offset-offset)]
		if n, err := f.ReadAt(p, offset); n < len(p) {
			return err
		}
		// The same bytes to the same place: a crash in between changes nothing that was read.
		if _, err := f.WriteAt(p, offset); err != nil {
			return err
		}
		// The disk begins while the rest is copied.
		f.StartWriteback(offset, int64(len(p)))
		offset += int64(len(p))
	}
	// Not SyncData: the length may not be durable either.
	return f.Sync()
}
