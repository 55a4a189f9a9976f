package pending

import (
	"slices"

	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// Mark is a place behind some writes, for Rollback.
type Mark struct {
	number           uint64 // among those of the writes, from 1
	spilled, records int    // writes before it, in files and in memory
	offset           int    // in the arena
	ranges           *rangedel.Set
	operations       operations
}

// marks says which Marks are valid. The zero value has none.
type marks struct {
	last       uint64    // number of the newest
	gone       []numbers // those that a Rollback has ended, ascending
	undone     int       // grows by more than Len falls, at each Rollback
	operations int       // so many of the first ones a Rollback may need as they are
}

// numbers are those greater than after, up to last.
type numbers struct{ after, last uint64 }

// Changes is a number that grows with each write and each Rollback.
func (w *Writes) Changes() int { return w.Len() + w.marks.undone }

// Mark returns the place behind the last write. The writes must be Indexed.
func (w *Writes) Mark() Mark {
	w.marks.last++
	w.marks.operations = len(w.ops)
	return Mark{w.marks.last, w.spilled, w.memory.count, len(w.memory.arena), w.ranges, w.operations}
}

// HasMark reports whether a Mark of the writes is still a place behind some of them: no Rollback to an
// earlier one has ended it. The zero Mark is none.
func (w *Writes) HasMark(m Mark) bool {
	for _, g := range slices.Backward(w.marks.gone) {
		if m.number > g.last {
			break
		}
		if m.number > g.after {
			return false
		}
	}
	return m.number > 0
}

// Rollback forgets the writes behind m, which HasMark, and ends later Marks. What was read of these
// writes stays valid. It changes nothing, and reports false, if some of them may be in files.
func (w *Writes) Rollback(m Mark) bool {
	if w.spilled != m.spilled {
		return false
	}
	before := w.Len()
	w.ranges, w.operations, w.marks.operations = m.ranges, m.operations, len(m.operations.ops)
	w.memory.truncateRecords(m.records, m.offset)
	w.marks.undone += before - w.Len() + 1
	gone := w.marks.gone
	for n := len(gone); n > 0 && gone[n-1].after >= m.number; n-- {
		gone = gone[:n-1]
	}
	if m.number < w.marks.last {
		gone = append(gone, numbers{m.number, w.marks.last})
	}
	w.marks.gone = gone
	return true
}
