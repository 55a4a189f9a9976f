package engine

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// unflushed has the journal segments whose records are not yet in runs.
type unflushed struct {
	journal *journal.Journal      // nil if read-only
	found   []journal.SegmentInfo // what the replay has found
}

// segments returns them, in order.
func (u *unflushed) segments() []journal.SegmentInfo {
	if u.journal == nil {
		return u.found
	}
	return u.journal.Segments()
}

// journalOwner implements journal.Owner: what the journal needs of the store. Its Register is that
// of the Log: the edit names only the last durable frame of a segment. So it needs no
// state.applying: other edits may come before or after it, and the commit leader waits for one edit
// under way at most.
type journalOwner struct {
	*manifest.Log
	state *state
}

func (o journalOwner) NextNum() entry.FileNum { return o.state.files.NextNum() }

func (o journalOwner) SegmentLimit() int64 { return o.state.budget.segmentLimit() }

// DiskFull is called when the disk had no room for a commit. The next commit tries again, unless it
// shows before that only the reserve is left.
func (o journalOwner) DiskFull() {
	disk := o.state.disk
	// Set before measuring: the free space may look enough, and still the journal got none of it.
	disk.noJournalSpace.Store(true)
	disk.measureSpace()
	_ = disk.refuseCommit(errs.ErrNoSpace)
}

// GoOn records this session in the manifest, before anything follows the end of the journal that it
// has found. That also revokes that the session before closed in order.
func (o journalOwner) GoOn() error {
	// The first edit of a session records this, whoever makes it.
	if o.Begun() {
		return nil
	}
	_, err := o.Append(&layout.Edit{NextFile: o.state.files.LastNum() + 1})
	return err
}
