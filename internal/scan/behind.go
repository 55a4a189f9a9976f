package scan

import (
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// behind is the state of a scan that may go on behind damage. The damage ends the move. If
// the user accepts it, the move is made again and passes the damage. So no code of the user
// runs within a walk.
type behind struct {
	accepted map[string]bool
	met      *errs.Corruption // damage that a walk has met, and that is not accepted yet; nil: none

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

// meets reports whether a walk goes on behind c, which it has met: only if c was accepted.
func (b *behind) meets(c *errs.Corruption) (goOn bool) {
	if b.accepted[nameOf(c)] {
		return true
	}
	b.met = c
	return false
}

// accept lets walks go on behind the damage that was met.
func (b *behind) accept() {
	if b.accepted == nil {
		b.accepted = make(map[string]bool)
	}
	b.accepted[nameOf(b.met)] = true
}

// nameOf identifies an accepted damage.
func nameOf(c *errs.Corruption) string {
	lo, _, _ := errs.Concerned(c)
	return fmt.Sprintf("%s %d %s", c.File, c.Offset, lo)
}
