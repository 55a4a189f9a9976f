package scan

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/view"
)

// locality counts the bytes of values that a scan jumped to: they lie elsewhere
// than the values before. A store whose scans jump much clusters its values.
type locality struct {
	at     entry.Handle // the last value
	jumped uint64       // bytes
}

// nearby is the largest distance in bytes at which the next record still counts as close: the
// readahead of processor and disk usually has it by then.
const nearby = 64 << 10

// passValue notes that the separated value of e was read, and reports whether it lies
// elsewhere than the one before; the first one does not.
func (l *locality) passValue(p *view.Pin, e *entry.Entry) (jumped bool) {
	// In both directions: a walk back reads values in order, too.
	low, high := &l.at, &e.Handle
	if low.Offset > high.Offset {
		low, high = high, low
	}
	jumped = l.at.Segment != 0 && (low.Segment != high.Segment || high.Offset-low.Offset > low.Length+nearby)
	if jumped {
		l.jumped += p.JumpedBytes(e)
	}
	l.at = e.Handle
	return jumped
}

// stream reads ahead in a segment whose values are read in order. It begins with a small part
// behind the second value, and doubles the part each time.
type stream struct {
	segment entry.FileNum
	asked   uint64 // the disk was asked for the segment up to this offset
	mark    uint64 // when a value from this offset on is read, the next part is asked for
	part    uint64 // size of the next part in bytes
}

const (
	streamFirst = 16 << 10
	streamMost  = 4 << 20
)

// readOn notes that the separated value of e was read, next to the one before unless it
// jumped, and reports whether more had to be asked for.
func (t *stream) readOn(p *view.Pin, e *entry.Entry, jumped bool) (asked bool) {
	h := &e.Handle
	if jumped || h.Segment != t.segment {
		*t = stream{segment: h.Segment, mark: h.Offset + 1, part: streamFirst}
		return false
	}
	if h.Offset < t.mark {
		return false
	}
	// A part may still be on its way from the call before: ask behind it.
	from := max(t.asked, h.Offset+h.Length)
	asked = p.ReadAhead(e, int64(from-h.Offset), int64(t.part)) > 0
	// In the middle of this part it is time for the next one.
	t.mark, t.asked = from+t.part/2, from+t.part
	t.part = min(2*t.part, streamMost)
	return asked
}
