package layout

import (
	"fmt"
	"strings"
)

// String lists the layout, a line for each run and segment, for tests and tools.
// It shows sizes and counts, no keys.
func (l *Layout) String() string {
	var b strings.Builder
	for _, r := range l.runs {
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
		b.WriteByte('\n')
	}
	for i, s := range l.segments {
		fmt.Fprintf(&b, "segment %d %v size=%d records=%d bytes=%d dead=%d/%d runs=%d",
			s.Num, s.Kind, s.FileBytes, s.Records, s.Bytes, s.dead.count, s.dead.bytes, l.usage[i].Runs)
		if s.Stamp != 0 {
			fmt.Fprintf(&b, " stamp=%d", s.Stamp)
		}
		if s.state.Status == Relocated {
			fmt.Fprintf(&b, " relocated map=%d target=%d", s.state.Map, s.state.Target)
		}
		b.WriteByte('\n')
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
