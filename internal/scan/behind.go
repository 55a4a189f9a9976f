package scan

import (
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// behind is what a scan needs that may go on behind damage: the damage ends the move, its
// user decides, and then the move is made again, with the damage accepted. So no code of
// the user runs within a walk.
type behind struct {
	accepted map[string]bool
	met      *errs.Corruption // what no walk has gone on behind, yet

	key     []byte        // where the last move began
	version entry.Version // of the entry there
	seek    bool          // it was a seek
}

// seeks notes where a seek begins.
func (b *behind) seeks(key []byte) { b.key, b.seek = append(b.key[:0], key...), true }

// moves notes where a move begins. What readahead has met stays.
func (b *behind) moves(e *entry.Entry) {
	b.key, b.version, b.seek = append(b.key[:0], e.Key...), e.Version, false
}

// meets is whether to go on behind c, which a walk has met.
func (b *behind) meets(c *errs.Corruption) (goOn bool) {
	if b.accepted[nameOf(c)] {
		return true
	}
	b.met = c
	return false
}

// accept has walks go on behind what was met.
func (b *behind) accept() {
	if b.accepted == nil {
		b.accepted = make(map[string]bool)
	}
	b.accepted[nameOf(b.met)] = true
}

// nameOf is what an accepted damage is known by.
func nameOf(c *errs.Corruption) string {
	lo, _, _ := errs.Concerned(c)
	return fmt.Sprintf("%s %d %s", c.File, c.Offset, lo)
}
