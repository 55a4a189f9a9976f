package scan

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
)

// sure is what is known of the entries that a walk forward comes to next: they are shown
// without a look at them, and without a guard. A short walk asks late, and for little.
type sure struct {
	of    iterator.Foresighted // the walk's source; nil: it knows nothing
	moves int                  // to entries that are shown
	moved bool                 // walk.key is behind
	rest  int                  // moves until the source is asked
	miss  int                  // how often in a row it knew too little
}

const (
	restAfterSeek = 1 // moves; a seek most often leads to one entry
	worthAsking   = 3 // moves
	mostMisses    = 6 // misses in a row from which on the source is asked every 64 moves
)

// forget forgets what is known.
func (s *sure) forget() { s.moves, s.moved, s.rest, s.miss = 0, false, restAfterSeek, 0 }

// shift makes a move that is sure, if there is one.
func (s *sure) shift() bool {
	if s.moves == 0 {
		return false
	}
	s.moves--
	return s.of.Next()
}

// due reports whether the source is to be asked before this move.
func (s *sure) due() bool {
	if s.rest > 0 {
		s.rest--
		return false
	}
	return s.of != nil
}

// ask asks the source for moves that are sure, and reports whether there are some. A source
// that most often knows of none is asked less and less.
func (s *sure) ask(until []byte, least, most entry.Version) bool {
	s.moves = s.of.Foresee(until, least, most)
	if s.moves >= worthAsking {
		s.miss = 0
	} else {
		s.miss = min(s.miss+1, mostMisses)
		s.rest = 1<<s.miss - 1
	}
	s.moved = s.moved || s.moves > 0
	return s.moves > 0
}
