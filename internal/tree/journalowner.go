package tree

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
)

// journalOwner implements journal.Owner: what the journal needs of the store.
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

// Register records in the manifest that a journal segment has durable frames. Its edit names
// only the segment's last durable frame. So it needs no installer.recording: other edits may
// come before or after it, and the commit leader waits for one edit under way at most.
func (o journalOwner) Register(s journal.SegmentInfo) error {
	return o.log.Register(layout.JournalEnd{Segment: s.Num, Frame: s.LastFrame, Life: s.Life})
}
