package tree

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
)

// journalOwner is the store as its journal knows it.
type journalOwner struct {
	files  *files.Opener
	budget *garbage.Budget
	disk   *diskSpace
	log    *manifest.Log
}

func (o journalOwner) NextNum() entry.FileNum { return o.files.Next() }

func (o journalOwner) SegmentLimit() int64 { return o.budget.SegmentLimit() }

func (o journalOwner) Recycle() (name string, ok bool) { return o.files.Spares.Take() }

func (o journalOwner) DiskFull() { o.disk.journalFull() }

// Register has the manifest know that a journal segment has durable frames. Only the
// frame is told, as by durableEnds, and it does without the mutex recording: other
// edits say no less of the segment, whichever comes first, and rely on nothing
// that this one says. So the leader waits for no more than an edit under way.
func (o journalOwner) Register(s journal.SegmentInfo) error {
	return o.log.Register(layout.JournalEnd{Segment: s.Num, Frame: s.LastFrame, Life: s.Life})
}
