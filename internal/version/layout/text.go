package layout

import (
	"fmt"
	"strings"

	"github.com/brockdb/brock/internal/base/crypt"
)

// String shows sizes and counts of the run, and its files, whose numbers lead to what is in the
// folder. It shows no keys.
func (r Run) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %d %v order=%d files=%d bytes=%d entries=%d deletes=%d versions=%d-%d",
		r.ID, r.Tier, r.Order, len(r.Files), r.FileBytes(), r.Entries, r.Deletes, r.MinVersion, r.MaxVersion)
	if r.RangeDeletes > 0 {
		fmt.Fprintf(&b, " rangeDeletes=%d", r.RangeDeletes)
	}
	if r.Stamp != 0 {
		b.WriteString(" stamped")
	}
	for _, ref := range r.Refs {
		fmt.Fprintf(&b, " %d:%d/%d", ref.Segment, ref.Records, ref.Bytes)
	}
	fmt.Fprintf(&b, " %v", r.Files)
	return b.String()
}

// String shows sizes and counts of the segment.
func (s Segment) String() string {
	text := fmt.Sprintf("segment %d %v size=%d records=%d bytes=%d dead=%d/%d",
		s.Num, s.Kind, s.FileBytes, s.Records, s.Bytes, s.dead.count, s.dead.bytes)
	if s.Stamp != 0 {
		text += fmt.Sprintf(" stamp=%d", s.Stamp)
	}
	if s.state.Status == Relocated {
		text += fmt.Sprintf(" relocated map=%d target=%d", s.state.Map, s.state.Target)
	}
	return text
}

// String counts the records.
func (d Dead) String() string {
	return fmt.Sprintf("%d records of segment %d, values of %d bytes", len(d.Granules), d.Segment, d.Bytes)
}

// String shows the fields by name.
func (s SegmentState) String() string {
	return fmt.Sprintf("{Num:%d Status:%d Map:%d Target:%d%s}", s.Num, s.Status, s.Map, s.Target, describeKey(s.KeyID))
}

// String shows the fields by name.
func (f RunFile) String() string {
	return fmt.Sprintf("{Num:%d Size:%d Checksum:%d%s}", f.Num, f.Size, f.Checksum, describeKey(f.KeyID))
}

// String shows the id of the data key.
func (k DataKey) String() string { return fmt.Sprintf("{ID:%x Rewrite:%v}", k.ID, k.Rewrite) }

// describeKey says which file key id of a file is meant.
func describeKey(id crypt.FileKeyID) string {
	if id.IsZero() {
		return ""
	}
	return fmt.Sprintf(" KeyID:%x", id.Salt)
}
