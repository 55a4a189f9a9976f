package scan

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
)

// row counts the keys, one behind the other, that a walk passes because they are
// deleted. Where it passes many, it has the Pin note the range as emptied, so that the
// next seek skips it.
type row struct {
	keys  int
	begin []byte // the rowBegins-th of them
}

const (
	rowBegins = 16  // keys in a row before a range begins: most rows end before, and copy no key
	rowNoted  = 128 // keys in a row that are noted; to walk them takes some 10 us, a note less than 1
)

// passes counts a key that a delete of any kind hides, of version by. What the
// transaction itself deletes others still see: it ends the row.
func (w *walk) passes(key []byte, by entry.Version) {
	if by == tombstone.Pending {
		w.rowEnds(key)
		return
	}
	r := &w.row
	if r.keys++; r.keys == rowBegins {
		r.begin = append(r.begin[:0], key...)
	}
}

// rowEnds says that the row ends before key, which something keeps visible, or may to
// other readers. A walk back ends behind it.
func (w *walk) rowEnds(key []byte) {
	if w.row.keys >= rowNoted {
		w.note(key)
	}
	w.row.keys = 0
}

// rowEndsAtBound says that there is no further key within the bounds, if nothing has
// failed: a walk that doesn't know what range deletes hide may have left anything out.
func (w *walk) rowEndsAtBound() {
	if w.row.keys >= rowNoted && w.err() == nil {
		w.note(nil)
	}
	w.row.keys = 0
}

// note notes the row up to a key, or up to the bound.
//
// Deletes must be the only reason why nothing of it was shown, also to others: since
// may be.
func (w *walk) note(key []byte) {
	switch {
	case w.since > 0 || w.behind != nil: // what it could not read may not be deleted
	case !w.backward && key == nil:
		w.pin.Emptied(w.row.begin, w.hi)
	case !w.backward:
		w.pin.Emptied(w.row.begin, key)
	case key == nil:
		w.pin.Emptied(w.lo, w.row.begin)
	default:
		w.pin.Emptied(append(bytes.Clone(key), 0), w.row.begin)
	}
}

// passOver goes past e, which is not shown: it is deleted, or it has expired, which
// readers with an older clock do not see.
func (w *walk) passOver(e *entry.Entry) {
	if e.Kind == entry.Delete {
		w.passes(e.Key, e.Version)
	} else {
		w.rowEnds(e.Key)
	}
}
