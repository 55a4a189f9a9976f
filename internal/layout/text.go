package layout

import (
	"fmt"
	"strings"
)

// String shows sizes and counts of the run, no keys.
func (r Run) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %d %v order=%d files=%d bytes=%d entries=%d deletes=%d versions=%d-%d",
		r.ID, r.Tier, r.Order, len(r.Files), r.FileBytes(), r.Entries, r.Deletes, r.MinVersion, r.MaxVersion)
	if r.Tombstones > 0 {
		fmt.Fprintf(&b, " tombstones=%d", r.Tombstones)
	}
	if r.Stamp != 0 {
		b.WriteString(" stamped")
	}
	for _, ref := range r.Refs {
		fmt.Fprintf(&b, " %d:%d/%d", ref.Segment, ref.Records, ref.Bytes)
	}
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

// String lists the layout, a line for each run and segment, for tests and tools.
// It shows sizes and counts, no keys.
func (l *Layout) String() string {
	var b strings.Builder
	for _, r := range l.runs {
		fmt.Fprintln(&b, r)
	}
	for i, s := range l.segments {
		fmt.Fprintf(&b, "%v runs=%d\n", s, l.usage[i].Runs)
	}
	fmt.Fprintf(&b, "flushed=%d version=%d floor=%d next=%d", l.flushedTo, l.lastVersion, l.floor, l.nextFile)
	if l.cleanClose {
		b.WriteString(" clean")
	}
	b.WriteByte('\n')
	for _, j := range l.ends {
		fmt.Fprintf(&b, "journal %d durable to %d, frame %d\n", j.Segment, j.Offset, j.Frame)
	}
	for _, k := range l.keyspaces {
		fmt.Fprintf(&b, "keyspace %d %q floor=%d\n", k.ID, k.Name, k.floor)
	}
	return b.String()
}
