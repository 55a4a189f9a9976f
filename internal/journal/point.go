package journal

import (
	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/frame"
)

// Point is a place between two frames of the journal where a segment ends. The
// zero value is the journal's beginning.
type Point struct {
	NextFrame   uint64        // number of the frame that follows; 0 means 1
	Chain       uint32        // header checksum of the frame before
	LastVersion entry.Version // greatest version before
	LastSegment entry.FileNum // the segment that ends here; 0 = none

	Tag crypt.Tag // of the frame before; zero: it is plain, or there is none
}

func (p Point) next() uint64 { return max(p.NextFrame, 1) }

// SegmentInfo describes one segment of the journal.
type SegmentInfo struct {
	Num        entry.FileNum
	End        int64  // behind the last frame
	FirstFrame uint64 // number of its first frame
	LastFrame  uint64 // number of its last frame, FirstFrame-1 if it has none
	Chain      uint32 // header checksum of its last frame, or of the one before FirstFrame
	Sealed     bool   // it doesn't grow any more
	frame.Totals

	Life crypt.Life // zero: it is plain
	Tag  crypt.Tag  // of its last frame, or of the one before FirstFrame
}

// Registered is a segment that, as the manifest says, had durable frames.
type Registered struct {
	Num  entry.FileNum
	Life crypt.Life // zero: it is plain
}
