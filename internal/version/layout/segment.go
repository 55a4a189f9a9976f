package layout

import (
	"iter"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
)

// Granule is the unit in which dead records are named, in bytes. A separated record
// is at least this long, so no two begin in one granule.
const Granule = 64

// Segment is a segment that entries of runs refer to.
type Segment struct {
	Num       entry.FileNum
	Kind      filename.Kind   // Journal or Value
	FileBytes uint64          // size of the file
	Records   uint64          // records that entries own or once owned
	Bytes     uint64          // of their values (Handle.Length)
	Stamp     entry.Version   // version of all records, whose file says 0; 0 = records have their own
	KeyID     crypt.FileKeyID // names the key of its file; zero = that is plain
	Unknown   []TLV           // fields of later releases, which must be kept

	state SegmentState
	dead  deadSet
}

// SegmentStatus says where the records of a segment are.
type SegmentStatus uint8

// The states of a segment.
const (
	Live      SegmentStatus = 0 // in its own file
	Relocated SegmentStatus = 1 // in another segment, found through a forwarding table file
)

// SegmentState is a state of a segment. In an Edit it is the new one.
type SegmentState struct {
	Num    entry.FileNum // the segment
	Status SegmentStatus
	Map    entry.FileNum   // Relocated: the forwarding table file
	Target entry.FileNum   // Relocated: the segment that has the records now
	KeyID  crypt.FileKeyID // Relocated: names the key of the forwarding table file; zero = that is plain
}

// Dead names records of a segment that no entry owns any more.
type Dead struct {
	Segment  entry.FileNum
	Bytes    uint64   // of their values (Handle.Length)
	Granules []uint32 // record offset / Granule, strictly ascending
}

// DeadMemory is the memory that the set of dead records takes, in bytes.
func (s *Segment) DeadMemory() int64 { return s.dead.memoryBytes() }

// State says where the records of s are.
func (s *Segment) State() SegmentState { return s.state }

// DeadRecords counts the records that no entry owns any more.
func (s *Segment) DeadRecords() uint64 { return s.dead.count }

// DeadBytes is the sum of the dead records' value lengths.
func (s *Segment) DeadBytes() uint64 { return s.dead.bytes }

// IsDead reports whether the record at offset is dead.
func (s *Segment) IsDead(offset uint64) bool { return s.dead.hasGranule(offset / Granule) }

// Owned reports whether an entry owns the record at off: it is not dead, and not one of
// those whose value is in a run. These have no checksum of their own, or are too short for
// a granule; no handle leads to them.
func (s *Segment) Owned(off int64, rec *entry.Record) bool {
	return rec.Own && rec.Size >= Granule && !s.IsDead(uint64(off))
}

// Dead walks the start granules of the dead records in ascending order.
func (s *Segment) Dead() iter.Seq[uint32] { return s.dead.eachGranule() }
