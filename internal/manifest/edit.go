// Package manifest records which runs and segments make up the store: SUPER,
// the log of edits, and the Layout that the edits add up to.
package manifest

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/run/meta"
)

// RunID names a run; no id is used twice in a store. The number of its first
// file serves.
type RunID uint64

// Tier is the rank of a run: Upper runs lie above the Base.
type Tier uint8

// The tiers; numbers between are for merged upper runs.
const (
	Upper Tier = 0
	Base  Tier = 255
)

// Granule is the unit in which dead records are named: a separated record is at
// least this long, so each has a start granule of its own.
const Granule = 64

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

// Run is one sorted run of the store.
type Run struct {
	ID    RunID
	Tier  Tier
	Order uint64 // age: greater is newer; unique among the runs of a layout
	meta.Run
	Unknown []TLV // what this release doesn't know and must keep
}

// Segment is a segment that entries of runs refer to.
type Segment struct {
	Num       entry.FileNum
	Kind      filename.Kind // Journal or Value
	FileBytes uint64        // size of the file
	Records   uint64        // records that entries own or once owned
	Bytes     uint64        // of their values (Handle.Length)
	Stamp     entry.Version // of all records, which say 0 in the file; 0 = they say their own
	Unknown   []TLV         // what this release doesn't know and must keep

	state SegmentState
	dead  deadSet
}

// SegmentStatus says where the records of a segment are.
type SegmentStatus uint8

// The states of a segment.
const (
	Live      SegmentStatus = 0 // in its own file
	Relocated SegmentStatus = 1 // in another segment, found through a remap file
)

// SegmentState moves a segment to another state.
type SegmentState struct {
	Num    entry.FileNum
	Status SegmentStatus
	Map    entry.FileNum // Relocated: the remap file
	Target entry.FileNum // Relocated: the segment that has the records now
}

// Dead names records of a segment that no entry owns any more.
type Dead struct {
	Segment  entry.FileNum
	Bytes    uint64   // of their values (Handle.Length)
	Granules []uint32 // record offset / Granule, strictly ascending
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

// TLV is a field that this release doesn't know.
type TLV struct {
	Tag   uint16
	Value []byte
}

// Deaths collects dead records in any order and makes the Dead lists of an edit.
// The zero value is empty and ready.
type Deaths struct {
	segments map[entry.FileNum]*Dead
}

// Add notes that the entry that owned the record at h is gone.
func (d *Deaths) Add(h entry.Handle) {
	s := d.segments[h.Segment]
	if s == nil {
		if d.segments == nil {
			d.segments = make(map[entry.FileNum]*Dead)
		}
		s = &Dead{Segment: h.Segment}
		d.segments[h.Segment] = s
	}
	s.Granules = append(s.Granules, uint32(h.Offset/Granule))
	s.Bytes += h.Length
}

// Take adds a list of records of one segment, which must not be dead in d yet.
func (d *Deaths) Take(list Dead) {
	if s := d.segments[list.Segment]; s != nil {
		s.Granules = append(s.Granules, list.Granules...)
		s.Bytes += list.Bytes
		return
	}
	if d.segments == nil {
		d.segments = make(map[entry.FileNum]*Dead)
	}
	d.segments[list.Segment] = &list
}

// Lists returns the lists, ascending by segment; d is to be dropped afterwards.
func (d *Deaths) Lists() []Dead {
	lists := make([]Dead, 0, len(d.segments))
	for _, s := range d.segments {
		slices.Sort(s.Granules)
		lists = append(lists, *s)
	}
	slices.SortFunc(lists, func(a, b Dead) int { return cmp.Compare(a.Segment, b.Segment) })
	return lists
}
