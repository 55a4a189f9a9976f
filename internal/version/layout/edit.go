package layout

import (
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Edit is one step from a Layout to the next. It takes effect whole or not at all.
// Zero fields change nothing. Apply takes the parts in the order of the fields,
// whatever order they have in the file.
type Edit struct {
	AddSegments    []Segment
	DropRuns       []RunID
	AddRuns        []Run
	Dead           []Dead // at most one for each segment
	States         []SegmentState
	DropSegments   []entry.FileNum
	FlushedTo      entry.FileNum // journal segments up to this one are wholly in runs
	JournalEnds    []frame.End   // how far live journal segments are durable; each registers its segment
	LastVersion    entry.Version // greatest version in runs and durable journal
	Floor          entry.Version // of the default keyspace: below this version history may be gone
	Clock          []ClockSample
	NextFile       entry.FileNum // every number used so far is less
	SetKeyspaces   []Keyspace    // added, or replaced if the id exists
	DropKeyspaces  []entry.KeyspaceID
	KeyspaceFloors []KeyspaceFloor // of keyspaces other than the default one
	NextKeyspace   uint64          // every number of a keyspace used so far is less
	CleanClose     bool            // the last edit of a session that closed in order
	Scrub          Scrub           // how far files are verified
	DataKey        DataKey         // for new files; never changes back to none
	Sessions       []Session       // begun with this edit
	Lasting        entry.Version   // greatest version up to which this edit, or one before, has made all independent of the journal
	FeedSegments   []FeedSegment   // journal segments up to FlushedTo that stay for the change feed
	FeedCommits    []FeedCommit    // commits of this edit that stay for the change feed
	FeedFrom       entry.Version   // of the change feed, all goes that ends with this version or before
	Unknown        []TLV           // fields of later releases, which must be kept
}

// DataKey is the key from which the keys of new files are derived.
type DataKey struct {
	ID      crypt.ID // zero: the store is plain
	Rewrite bool     // files under other keys, and plain ones, are to be rewritten
}

// ClockSample says that a version was the newest at a time.
type ClockSample struct {
	Version   entry.Version
	UnixMilli int64
}

// StandsAlone reports whether only the manifest records what e does: e commits a transaction
// larger than its memory or only takes a version, makes, changes or drops a keyspace, or says which data key is
// current. Other edits can be made again from the journal and the files.
func (e *Edit) StandsAlone() bool {
	// A flush makes lasting what the journal has; these commit by themselves.
	return e.Lasting != 0 && e.FlushedTo == 0 ||
		slices.ContainsFunc(e.AddRuns, func(r Run) bool { return r.Stamp != 0 }) ||
		len(e.SetKeyspaces) > 0 || len(e.DropKeyspaces) > 0 || e.DataKey != (DataKey{})
}

// KeyIDs lists the keys of the files that e adds.
func (e *Edit) KeyIDs() (list []crypt.FileKeyID) {
	for _, r := range e.AddRuns {
		for _, f := range r.Files {
			list = append(list, f.KeyID)
		}
	}
	for _, s := range e.AddSegments {
		list = append(list, s.KeyID)
	}
	for _, s := range e.States {
		list = append(list, s.KeyID)
	}
	return list
}
