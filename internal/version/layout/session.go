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

// A layout knows at least the newest 64 sessions, and as many more as the change feed needs.
const (
	maxSessions  = 64
	mostSessions = 1024 // 100 KB in the manifest
)

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

// Of returns the session that tells version v from the same version of another past: the one that
// has committed it. If that is forgotten, or the commit was lost, it is the first one behind it. ok is
// false if v is older than the first session of this store: it comes from the copy that the store
// was made of.
func (s Sessions) Of(v entry.Version) (of Session, ok bool) {
	next := s.firstBehind(v)
	switch {
	case v == 0: // all stores begin alike
		return of, false
	case next == len(s) || next > 0 && v <= s[next].Lasts:
		next--
	case next == 0 && s[0].Number == 1:
		return of, false
	}
	if next < 0 {
		return of, false
	}
	return s[next], true
}

// firstBehind is the place of the first session whose own commits are all behind version v.
func (s Sessions) firstBehind(v entry.Version) int {
	if i := slices.IndexFunc(s, func(x Session) bool { return x.Newest >= v }); i >= 0 {
		return i
	}
	return len(s)
}

// since drops the oldest sessions but for maxSessions, and those that versions from first on need: of
// these, and of the version before, it must be known who has committed them.
func (s Sessions) since(first entry.Version) Sessions {
	needed := len(s)
	if first > 0 { // else nothing was ever committed
		if i := s.firstBehind(first); i > 0 {
			first = s[i-1].Newest
		}
		needed = max(s.firstBehind(first)-1, 0)
	}
	return s[max(min(needed, len(s)-maxSessions), len(s)-mostSessions, 0):]
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
