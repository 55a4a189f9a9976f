package brock

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/view"
)

// jumps counts what an iterator had to jump to for values that lie elsewhere
// than those before. A store whose scans jump much sorts its values.
type jumps struct {
	at    entry.Handle // the last value
	bytes uint64       // scattered
}

// nearby is how far the next record may lie for memory and disk to have it ready.
const nearby = 64 << 10

// pass notes that the separated value of e was read, and reports whether it lies
// elsewhere than the one before; the first one does not.
func (j *jumps) pass(p *view.Pin, e *entry.Entry) (jumped bool) {
	low, high := &j.at, &e.Handle
	if low.Offset > high.Offset {
		low, high = high, low
	}
	jumped = j.at.Segment != 0 && (low.Segment != high.Segment || high.Offset-low.Offset > low.Length+nearby)
	if jumped {
		j.bytes += p.Jump(e)
	}
	j.at = e.Handle
	return jumped
}
