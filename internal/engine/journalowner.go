package engine

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// journalOwner implements journal.Owner: what the journal needs of the store.
type journalOwner struct {
	*state
	disk *diskSpace
}

func (o journalOwner) NextNum() entry.FileNum { return o.files.Next() }

func (o journalOwner) SegmentLimit() int64 { return o.budget.segmentLimit() }

func (o journalOwner) DiskFull() { o.disk.journalFull() }

// GoOn records this session in the manifest, before anything follows the end of the journal that it
// has found. That also revokes that the session before closed in order.
func (o journalOwner) GoOn() error {
	if o.log.Begun() {
		return nil
	}
	_, err := o.log.Append(&layout.Edit{NextFile: o.files.Last() + 1})
	return err
}

// Register records in the manifest that a journal segment has durable frames. Its edit names
// only the segment's last durable frame. So it needs no state.applying: other edits may
// come before or after it, and the commit leader waits for one edit under way at most.
func (o journalOwner) Register(end frame.End) error { return o.log.Register(end) }
