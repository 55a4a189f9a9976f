package scan

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/view"
)

// locality counts the bytes of values that a scan jumped to: they lie elsewhere
// than the values before. A store whose scans jump much clusters its values.
type locality struct {
	at     entry.Handle // the last value
	jumped uint64       // bytes
}

// nearby is how far the next record may lie for memory and disk to have it ready.
const nearby = 64 << 10

// pass notes that the separated value of e was read, and reports whether it lies
// elsewhere than the one before; the first one does not.
func (l *locality) pass(p *view.Pin, e *entry.Entry) (jumped bool) {
	low, high := &l.at, &e.Handle
	if low.Offset > high.Offset {
		low, high = high, low
	}
	jumped = l.at.Segment != 0 && (low.Segment != high.Segment || high.Offset-low.Offset > low.Length+nearby)
	if jumped {
		l.jumped += p.Jump(e)
	}
	l.at = e.Handle
	return jumped
}
