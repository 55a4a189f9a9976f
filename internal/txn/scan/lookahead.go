package scan

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// lookahead counts the next entries of a walk forward that are known to be visible: its source has
// looked ahead (iterator.Lookahead). They are shown without a look at other sources, and without
// a guard. The source is asked late, so that a short walk does not pay for it. Without this, a scan
// of a run takes 1.5 to 1.9 times as long (go test -bench StoreScan ./internal/test/store/read).
type lookahead struct {
	source iterator.Lookahead // the walk's source; nil: it can't look ahead
	moves  int                // the next moves that lead to visible entries
	moved  bool               // such a move was made, so walk.key is not that of the current entry
	rest   int                // moves until the source is asked again
	misses int                // how often in a row the source knew of too few
}

const (
	restAfterSeek = 1 // moves; a seek most often leads to one entry
	worthAsking   = 3 // moves
	mostMisses    = 6 // misses in a row from which on the source is asked every 64 moves
)

// forgetKnown forgets what the source knew: a seek has begun.
func (v *lookahead) forgetKnown() { v.moves, v.moved, v.rest, v.misses = 0, false, restAfterSeek, 0 }

// takeKnown makes a move to an entry that is known to be visible, if there is one.
func (v *lookahead) takeKnown() bool {
	if v.moves == 0 {
		return false
	}
	v.moves--
	return v.source.Next()
}

// isDue reports whether to ask the source before this move.
func (v *lookahead) isDue() bool {
	if v.rest > 0 {
		v.rest--
		return false
	}
	return v.source != nil
}

// askSource asks the source for the next entries that are visible, and reports whether there are
// some. A source that most often knows of none is asked less and less: where versions and deletes
// mix, each question would be wasted.
func (v *lookahead) askSource(until []byte, least, most entry.Version) bool {
	v.moves = v.source.LookAhead(until, least, most)
	if v.moves >= worthAsking {
		v.misses = 0
	} else {
		v.misses = min(v.misses+1, mostMisses)
		v.rest = 1<<v.misses - 1
	}
	v.moved = v.moved || v.moves > 0
	return v.moves > 0
}
