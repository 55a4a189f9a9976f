package engine

import "github.com/brockdb/brock/internal/vlog/journal"

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
