package layout

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Session is one opening of the store for writing that has recorded an edit. Two copies of a store
// that both go on have different ones from there on, however alike their other numbers are.
type Session struct {
	Number uint64        // the first session of a store has 1, each further one the next number
	ID     uint64        // random
	Newest entry.Version // its commits have greater versions
	Lasts  entry.Version // the newest version of those before that was not lost; above it, up to Newest, there are no commits
	Found  frame.End     // where the journal ended that it found: its own segments follow; zero: there was none
}

// maxSessions is how many sessions a layout knows, the newest ones.
const maxSessions = 64

// Sessions are the newest sessions of a store, ascending.
type Sessions []Session

// ContinueFrom reports whether the store of s is a later state of the one of from. It is false if
// they don't tell, as there were more than 64 sessions between. Any store continues one without
// sessions, as earlier releases have written it.
func (s Sessions) ContinueFrom(from Sessions) bool {
	if len(from) == 0 {
		return true
	}
	last := from[len(from)-1].Number
	knowsLast := false
	for _, now := range s {
		i := slices.IndexFunc(from, func(old Session) bool { return old.Number == now.Number })
		// A session of this number, but another one: both copies went on from a common past.
		if i >= 0 && from[i].ID != now.ID {
			return false
		}
		knowsLast = knowsLast || now.Number == last
	}
	// An earlier state agrees in all numbers that it has. It lacks the last one.
	return knowsLast
}

// Last is the number of the newest session; 0: there was none.
func (s Sessions) Last() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].Number
}

// Of returns the session that has committed version v. ok is false if that is older than all that are
// known, or if the commit was lost.
func (s Sessions) Of(v entry.Version) (of Session, ok bool) {
	next := slices.IndexFunc(s, func(x Session) bool { return x.Newest >= v })
	if next < 0 {
		next = len(s)
	}
	if next == 0 || next < len(s) && v > s[next].Lasts {
		return of, false
	}
	return s[next-1], true
}

// Lost reports whether version v was given to a commit that was lost. Then upTo is the last one of
// the lost ones.
func (s Sessions) Lost(v entry.Version) (upTo entry.Version, lost bool) {
	for _, x := range s {
		if x.Lasts < v && v <= x.Newest {
			return x.Newest, true
		}
	}
	return 0, false
}

// Found reports whether a journal that had this last frame while the session n was the newest one
// is the journal that the next session has found. It is, if there is no next session.
func (s Sessions) Found(n uint64, last frame.Name) bool {
	i := slices.IndexFunc(s, func(x Session) bool { return x.Number > n })
	if i < 0 || last.Number == 0 {
		return true
	}
	// It may have found more frames, but not another one of this number, and not fewer.
	found := s[i].Found.Name
	return found.Number > last.Number || found == last
}
