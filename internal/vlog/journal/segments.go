package journal

import (
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// The segments whose records are not in runs yet: which there are, and how they are read and
// forgotten.

// DurableEnd is the point behind the last frame known to be durable.
func (j *Journal) DurableEnd() Point {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.proven
}

// DurableEnds returns how far each segment of Segments behind number after is known to be durable.
func (j *Journal) DurableEnds(after entry.FileNum) (ends []frame.End) {
	durable := j.DurableEnd()
	for _, s := range j.Segments() {
		switch {
		case s.File <= after || s.FirstFrame > durable.Number:
		case s.Number <= durable.Number:
			ends = append(ends, s.End)
		default: // the last one that has durable frames
			ends = append(ends, durable.End)
		}
	}
	return ends
}

// Segments describes, in order, the segments that Forget has not dropped: those that Replay has
// found, and those that this Journal has begun.
func (j *Journal) Segments() []SegmentInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.live)
}

// FindSegment returns the segment of this number; zero if the list has none.
func FindSegment(list []SegmentInfo, num entry.FileNum) SegmentInfo {
	for _, s := range list {
		if s.File == num {
			return s
		}
	}
	return SegmentInfo{}
}

// Forget drops the sealed segments up to number last, whose records are durable
// in runs: they are no longer in Segments, and their files are closed, synced
// or not. It must return before such a file is removed.
func (j *Journal) Forget(last entry.FileNum) {
	// SyncSealed may be syncing one of these files right now: wait, or its descriptor would be
	// closed under it.
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	// The segment being written stays: its later frames are in no run.
	for len(j.live) > 0 && j.live[0].File <= last && (j.cur == nil || j.live[0].File != j.cur.Number()) {
		// What is in runs needs no segment, so the manifest need not know of it either.
		j.registered = max(j.registered, j.live[0].Number)
		j.live = j.live[1:]
	}
	for len(j.sealed) > 0 && j.sealed[0].Number() <= last {
		_ = j.sealed[0].Close() // what it holds is durable elsewhere
		j.noteDurableLocked(j.sealed[0].At().End, j.sealed[0].At().Max)
		j.sealed = j.sealed[1:]
	}
}

// OpenReader opens a segment of Segments. The reader of a segment that still
// grows sees each group as soon as its Append has returned.
func (j *Journal) OpenReader(num entry.FileNum) (*segment.Reader, error) {
	j.mu.Lock()
	var found *open
	// The capacity is cut so that append copies: it must not write behind sealed.
	for _, o := range append(j.sealed[:len(j.sealed):len(j.sealed)], j.cur) {
		if o != nil && o.Number() == num {
			found = o
		}
	}
	if found != nil && found.reader != nil {
		r := found.reader
		// The caller owns it now and closes it, so it is handed out once.
		found.reader = nil
		j.mu.Unlock()
		return r, nil
	}
	s := FindSegment(j.live, num)
	j.mu.Unlock()
	// While the file is open for writing, the reader shares the writer's end.
	if found != nil {
		return found.OpenReader(found.limit, j.c.NoMap)
	}
	if s.Offset == 0 {
		return nil, fmt.Errorf("%w: journal has no segment %d", errs.ErrInvalid, num)
	}
	return segment.Open(j.c.Config, filename.Journal, num, segment.OpenOptions{End: s.Offset, NoMap: j.c.NoMap, KeyID: s.KeyID})
}

// OpenFiles returns how many files are open for writing.
func (j *Journal) OpenFiles() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cur == nil {
		return len(j.sealed)
	}
	return len(j.sealed) + 1
}
