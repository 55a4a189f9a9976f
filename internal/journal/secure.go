package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/segment"
)

// doubt is the frames of a replay that nothing proves to have been durable: the
// last ones. It knows where they begin, or a little before.
type doubt struct {
	proven uint64 // greatest frame number known to be durable
	marks  []mark // the first one is at or before the first frame in doubt
}

// mark is a frame.
type mark struct {
	frame   uint64
	segment int   // index in ReplayResult.Segments
	offset  int64 // 0 if it's the first of its segment, whose header is in doubt too
}

// markEvery is how much of the journal lies between two marks.
const markEvery = 64 << 10

// add notes a valid frame of the segment with this index.
func (d *doubt) add(f *segment.Found, seg int) {
	m := mark{frame: f.Header.Number, segment: seg, offset: f.Offset}
	if f.Offset == segment.HeaderSize {
		m.offset = 0
	}
	if n := len(d.marks); n == 0 || d.marks[n-1].segment != seg || m.offset-d.marks[n-1].offset >= markEvery {
		d.marks = append(d.marks, m)
	}
	// A frame that proves an earlier one durable takes that out of doubt.
	d.proven = max(d.proven, f.Header.Durable())
	for len(d.marks) > 1 && d.marks[1].frame <= d.proven+1 {
		d.marks = d.marks[1:]
	}
}

// begin is where writing again has to begin; ok is false if all is proven.
func (d *doubt) begin(last uint64) (m mark, ok bool) {
	if last <= d.proven || len(d.marks) == 0 {
		return mark{}, false
	}
	return d.marks[0], true
}

// securedTogether is how many files are made durable at the same time, at most. Each
// takes a descriptor and up to 1 MiB of memory.
const securedTogether = 2

// secure makes durable what was replayed, before anything that relies on it is
// written. A sync alone would not do: the process that wrote the last frames may
// have been killed before its sync, but that sync may also have failed, and then
// the system takes what it holds of the file for written. So the frames in doubt
// are written again, as they are.
func (r *replay) secure() error {
	if len(r.out.Segments) == 0 {
		return nil
	}
	from, again := r.doubt.begin(r.point.NextFrame - 1)
	// One file is copied while others are on their way to the disk.
	failed := make([]error, len(r.out.Segments))
	free := make(chan struct{}, securedTogether)
	var all sync.WaitGroup
	for i, s := range r.out.Segments {
		offset := s.End
		switch {
		case again && i == from.segment:
			offset = from.offset
		case again && i > from.segment:
			offset = 0
		}
		free <- struct{}{}
		all.Go(func() {
			if err := r.secureSegment(s, offset); err != nil {
				failed[i] = fmt.Errorf("make %s durable: %w", filename.Of(filename.Journal, s.Num), err)
			}
			<-free
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	// The names of the files may not be durable either.
	return r.c.FS.SyncDir(r.c.Dir)
}

// secureSegment writes what lies between offset and the end again, and syncs the file.
func (r *replay) secureSegment(s SegmentInfo, offset int64) (err error) {
	f, err := r.c.FS.OpenReadWrite(filepath.Join(r.c.Dir, filename.Of(filename.Journal, s.Num)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, max(0, min(s.End-offset, 1<<20)))
	for offset < s.End {
		p := buf[:min(int64(len(buf)), s.End-offset)]
		if n, err := f.ReadAt(p, offset); n < len(p) {
			return err
		}
		if _, err := f.WriteAt(p, offset); err != nil {
			return err
		}
		offset += int64(len(p))
	}
	return f.Sync()
}
