package layout

import (
	"github.com/brockdb/brock/internal/entry"
)

// Edit is one step from a Layout to the next; it happens whole or not at all.
// Zero fields change nothing. The parts are applied in the order of the fields,
// whatever order they have in the file.
type Edit struct {
	AddSegments    []Segment
	DropRuns       []RunID
	AddRuns        []Run
	Dead           []Dead // at most one for each segment
	States         []SegmentState
	DropSegments   []entry.FileNum
	FlushedTo      entry.FileNum // journal segments up to this one are wholly in runs
	JournalEnds    []JournalEnd  // how far live journal segments are durable
	LastVersion    entry.Version // greatest version in runs and durable journal
	Floor          entry.Version // history of the default keyspace below this version may be gone
	Clock          []ClockSample
	NextFile       entry.FileNum // every number used so far is less
	SetKeyspaces   []Keyspace    // added, or replaced if the id exists
	DropKeyspaces  []entry.KeyspaceID
	KeyspaceFloors []KeyspaceFloor // Floor, for keyspaces that have one of their own
	NextKeyspace   uint64          // every number of a keyspace used so far is less
	CleanClose     bool            // the last edit of a session that closed in order
	Unknown        []TLV           // what this release doesn't know and must keep
}

// JournalEnd is a point up to which a journal segment is durable.
type JournalEnd struct {
	Segment entry.FileNum
	Offset  uint64
	Frame   uint64 // number of the last frame before Offset
	Chain   uint32 // header checksum of that frame
}

// ClockSample says that a version was the newest at a time.
type ClockSample struct {
	Version   entry.Version
	UnixMilli int64
}
