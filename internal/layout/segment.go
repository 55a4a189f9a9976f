package layout

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"iter"
)

// Granule is the unit in which dead records are named: a separated record is at
// least this long, so each has a start granule of its own.
const Granule = 64

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

// State says where the records of s are.
func (s *Segment) State() SegmentState {
	st := s.state
	st.Num = s.Num
	return st
}

// DeadRecords and DeadBytes count what no entry owns any more.
func (s *Segment) DeadRecords() uint64 { return s.dead.count }

// DeadBytes is the sum of the dead records' value lengths.
func (s *Segment) DeadBytes() uint64 { return s.dead.bytes }

// IsDead reports whether the record at offset is dead.
func (s *Segment) IsDead(offset uint64) bool { return s.dead.has(offset / Granule) }

// Dead walks the start granules of the dead records in ascending order.
func (s *Segment) Dead() iter.Seq[uint32] { return s.dead.all() }
