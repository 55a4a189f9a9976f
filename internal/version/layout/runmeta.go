package layout

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// RunMeta describes one sorted run: what is needed to open it, and what is known of its contents
// without reading it. Package run makes and checks it; the manifest records it. Slices are shared
// and never written to.
type RunMeta struct {
	Files       []RunFile // in key order
	First, Last []byte    // least and greatest key, also of range deletes; see LowerBound and UpperBound
	Entries     uint64    // of all kinds but range deletes
	Deletes     uint64    // entries that are deletes
	// range deletes as stored: overlapping ones are flattened as far as readers allow
	RangeDeletes   uint64
	KeyBytes       uint64        // of all entries
	ValueBytes     uint64        // inline values
	SeparatedBytes uint64        // values in segments
	MinVersion     entry.Version // of entries and range deletes
	MaxVersion     entry.Version
	MinExpiry      uint64           // least expiry of an entry, Unix milliseconds; 0 = none expires
	Expiry         []entry.Expiring // ascending by time; nil, too, if it was not recorded
	Superseded     []Superseded     // what other entries of the run have replaced; nil if it was not recorded
	Refs           []SegmentRef     // ascending by segment
	Stamp          entry.Version    // version of all entries, whose files say 0; 0 = entries have their own
}

// RunFile is one file of a run.
type RunFile struct {
	Num      entry.FileNum
	Size     uint64          // in bytes
	Checksum uint32          // of the file's footer; 0 = not recorded
	KeyID    crypt.FileKeyID // names its key; zero = it is plain
}

// SegmentRef counts the entries of a run whose values lie in one segment.
type SegmentRef struct {
	Segment entry.FileNum
	Records uint64 // how many entries
	Bytes   uint64 // of values (Handle.Length)
}

// FileBytes is the size of all files of the run.
func (r *RunMeta) FileBytes() uint64 {
	var n uint64
	for _, f := range r.Files {
		n += f.Size
	}
	return n
}

// BoundSize is the greatest length in bytes of a bound that the store remembers. For a longer
// key, LowerBound and UpperBound give a bound a little outside. That is enough to choose runs by.
const BoundSize = 128

// LowerBound returns key, or the first BoundSize bytes of a longer key, which are less. The result
// shares memory with key.
func LowerBound(key []byte) []byte { return key[:min(len(key), BoundSize):min(len(key), BoundSize)] }

// UpperBound returns a copy of key, or for a longer key one of at most BoundSize bytes that is
// greater.
func UpperBound(key []byte) []byte {
	if len(key) <= BoundSize {
		return bytes.Clone(key)
	}
	for n := BoundSize; n > 0; n-- {
		// Cut and raise: every key with the cut prefix is less than the result.
		if key[n-1] != 0xff {
			up := bytes.Clone(key[:n])
			up[n-1]++
			return up
		}
	}
	return bytes.Clone(key) // of 0xff bytes only, which no stored key begins with
}

// AddRangeDeletes adds the number, bounds and versions of t's range deletes to r, which must have
// those of its entries already.
func (r *RunMeta) AddRangeDeletes(t *RunMeta) {
	if t.RangeDeletes == 0 {
		return
	}
	// Seeks and compactions choose runs by their bounds, so those of range deletes count.
	if r.First == nil || bytes.Compare(t.First, r.First) < 0 {
		r.First = LowerBound(t.First)
	}
	if bytes.Compare(t.Last, r.Last) > 0 {
		r.Last = UpperBound(t.Last)
	}
	// Without entries MinVersion is 0, which is no version yet.
	if r.Entries == 0 || t.MinVersion < r.MinVersion {
		r.MinVersion = t.MinVersion
	}
	r.MaxVersion = max(r.MaxVersion, t.MaxVersion)
	r.RangeDeletes = t.RangeDeletes
}

// SortRefs brings refs into the order of their segments.
func SortRefs(refs []SegmentRef) {
	slices.SortFunc(refs, func(a, b SegmentRef) int { return cmp.Compare(a.Segment, b.Segment) })
}
