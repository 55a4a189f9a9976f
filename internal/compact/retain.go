package compact

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
)

// Rules say which entries a flush or merge may drop. They are decided once,
// before the work begins, and hold for all of it.
type Rules struct {
	// Watermark is the oldest version that anybody may still read at: every
	// reader's version, and the retained age, are at or above it.
	Watermark entry.Version
	// Versions is how many of a key's newest versions are kept at least; 0 means 1.
	Versions int
	// Keyspaces have a Watermark and Versions of their own; nil: none has.
	Keyspaces map[entry.KeyspaceID]History
	// Dropped says which keyspaces are gone: their entries are garbage, whatever
	// lies below them. Nobody can ask for them any more: a reader who began
	// earlier has a View of his own. nil: none are.
	Dropped func(id entry.KeyspaceID) bool
	// Bottom says that nothing older lies below the inputs, so that a delete
	// has nothing left to hide.
	Bottom bool
	// Now is the time in Unix milliseconds by which entries expire.
	Now uint64
}

// History is what stays of the entries of one keyspace, as Rules has it for all others.
type History struct {
	Watermark entry.Version
	Versions  int
}

// verdict is what becomes of an entry.
type verdict uint8

const (
	keep   verdict = iota
	drop           // nobody can see it any more
	bury           // expired: its value goes, a delete stays in its place
	vanish         // a delete (or expired value) with nothing left to hide
)

// retention applies Rules to entries that arrive in entry.Compare order.
//
// Invariant: for every version at or above the watermark of a keyspace that was
// not dropped, a read of the kept entries finds what a read of all entries finds.
type retention struct {
	rules    Rules
	history  History          // of the keyspace of key
	keyspace entry.KeyspaceID // of key
	dropped  bool             // keyspace is
	key      []byte           // of the entries being judged
	kept     int              // versions of key kept so far
	ended    bool             // older versions of key are invisible to everybody
	first    bool             // no entry seen yet
}

func newRetention(r Rules) *retention {
	return &retention{rules: r, history: History{r.Watermark, r.Versions}, first: true}
}

// enter takes up the rules of the keyspace that key is the first of.
func (t *retention) enter(key []byte) {
	id, ok := entry.KeyspaceOf(key)
	if !t.first && id == t.keyspace {
		return
	}
	t.keyspace, t.history = id, History{t.rules.Watermark, t.rules.Versions}
	if h, found := t.rules.Keyspaces[id]; found {
		t.history = h
	}
	t.dropped = ok && t.rules.Dropped != nil && t.rules.Dropped(id)
}

func (t *retention) judge(e *entry.Entry) verdict {
	if t.first || !bytes.Equal(t.key, e.Key) {
		t.enter(e.Key)
		t.key = append(t.key[:0], e.Key...)
		t.kept, t.ended, t.first = 0, false, false
	}
	if t.dropped {
		return drop
	}
	if e.Version > t.history.Watermark {
		t.kept++
		return keep
	}
	if t.ended {
		return drop
	}
	if !e.Live(t.rules.Now) {
		t.ended = true
		switch {
		case t.rules.Bottom:
			return vanish
		case e.Kind == entry.Delete:
			return keep
		default:
			return bury
		}
	}
	t.kept++
	t.ended = t.kept >= t.history.Versions || e.Kind == entry.SetLatest
	return keep
}
