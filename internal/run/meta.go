// Package run is a sorted run: entries in key order in one or more files, read
// by key through a hash index in each chunk, or in order. docs/format.md, "Run",
// has the format.
package run

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/run/chunk"
	"github.com/brockdb/brock/internal/tombstone"
)

// Meta is what must be remembered of a run to open it again, and what is known
// of its contents without reading it.
type Meta struct {
	Files          []File
	First, Last    []byte // least and greatest stored key, and bound of a tombstone
	Entries        uint64
	Tombstones     uint64
	Deletes        uint64
	KeyBytes       uint64
	ValueBytes     uint64        // inline values
	SeparatedBytes uint64        // values in segments
	MinVersion     entry.Version // of entries and tombstones
	MaxVersion     entry.Version
	MinExpiry      uint64           // least expiry of an entry, Unix milliseconds; 0 = none expires
	Expiry         []entry.Expiring // ascending by time
	Refs           []Ref            // ascending by segment
	Stamp          entry.Version    // of all entries, which say 0 in the files; 0 = they say their own
}

// File is one file of a run; a run's files are in key order.
type File struct {
	Num      entry.FileNum
	Size     uint64
	Checksum uint32 // of the file's footer; 0 = not recorded
}

// Ref counts the entries of a run whose values lie in one segment.
type Ref struct {
	Segment entry.FileNum
	Records uint64
	Bytes   uint64 // of values (Handle.Length)
}

// FileBytes is the size of all files of the run.
func (m *Meta) FileBytes() uint64 {
	var n uint64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

func (m *Meta) setStats(s *chunk.Stats) {
	m.Entries, m.Deletes = s.Entries, s.Deletes
	m.KeyBytes, m.ValueBytes, m.SeparatedBytes = s.KeyBytes, s.ValueBytes, s.SeparatedBytes
	m.MinVersion, m.MaxVersion, m.MinExpiry = s.MinVersion, s.MaxVersion, s.MinExpiry
}

// addTombstones extends the bounds by those of tombstones.
func (m *Meta) addTombstones(list []tombstone.Tombstone) {
	for i := range list {
		t := &list[i]
		if m.First == nil || bytes.Compare(t.Lo, m.First) < 0 {
			m.First = t.Lo
		}
		if bytes.Compare(t.Hi, m.Last) > 0 {
			m.Last = t.Hi
		}
		if m.Entries == 0 && m.Tombstones == 0 || t.Version < m.MinVersion {
			m.MinVersion = t.Version
		}
		m.MaxVersion = max(m.MaxVersion, t.Version)
		m.Tombstones++
	}
}

func sortRefs(refs []Ref) {
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.Segment, b.Segment) })
}
