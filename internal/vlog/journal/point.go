package journal

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Point is a place between two frames of the journal where a segment ends: behind the frame
// that it names. The zero value is the journal's beginning.
type Point struct {
	frame.End
	LastVersion entry.Version // greatest version before
}

// SegmentInfo describes one segment of the journal: its last frame, where that ends, and what came
// up to there. Sealed says that it doesn't grow any more.
type SegmentInfo struct {
	segment.Place
	FirstFrame uint64 // number of its first frame
}

// emptySegment is the segment with this header before its first frame.
func emptySegment(h *segment.Header) SegmentInfo {
	return SegmentInfo{Place: h.FirstPlace(), FirstFrame: h.FirstFrame()}
}

// canEndAt reports whether the journal can have ended at end, while it had the frames of s, or before
// they were written.
func (s *SegmentInfo) canEndAt(end frame.End) bool {
	switch {
	case s.File > end.File:
		return s.FirstFrame > end.Number
	case s.File < end.File:
		return s.Number < end.Number
	case s.Number == end.Number:
		return s.Name == end.Name
	}
	return s.Number < end.Number && s.KeyID == end.KeyID
}

// hasFrames reports whether s has a frame.
func (s *SegmentInfo) hasFrames() bool { return s.Number >= s.FirstFrame }
