package compact

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
)

// Rules say which entries a flush or merge may drop. They are decided once,
// before the work begins, and hold for all of it.
type Rules struct {
	// Watermark is the oldest version that a reader may still ask for: nothing
	// within the retained age is below it. Who reads an older one already has a
	// View of its own, in which it stays.
	Watermark entry.Version
	// Checked is the oldest version that an open transaction reads, Watermark at
	// most. Its commit will be checked against every later delete, so these stay.
	Checked entry.Version
	// Bottom says that nothing older lies below the inputs, so that a delete
	// has nothing left to hide.
	Bottom bool
	// Versions is how many of a key's newest versions are kept at least; 0 means 1.
	Versions int
	// Now is the time in Unix milliseconds by which entries expire.
	Now uint64
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
// Invariant: for every version at or above the watermark, a read of the kept
// entries finds what a read of all entries finds.
type retention struct {
	rules Rules
	key   []byte // of the entries being judged
	kept  int    // versions of key kept so far
	ended bool   // older versions of key are invisible to everybody
	first bool   // no entry seen yet
}

func newRetention(r Rules) *retention {
	if r.Versions < 1 {
		r.Versions = 1
	}
	return &retention{rules: r, first: true}
}

func (t *retention) judge(e *entry.Entry) verdict {
	if t.first || !bytes.Equal(t.key, e.Key) {
		t.key = append(t.key[:0], e.Key...)
		t.kept, t.ended, t.first = 0, false, false
	}
	if e.Version > t.rules.Watermark {
		t.kept++
		return keep
	}
	if t.ended {
		return drop
	}
	if !e.Live(t.rules.Now) {
		t.ended = true
		switch {
		case t.rules.Bottom && e.Version <= t.rules.Checked:
			return vanish
		case e.Kind == entry.Delete:
			return keep
		default:
			return bury
		}
	}
	t.kept++
	t.ended = t.kept >= t.rules.Versions || e.Kind == entry.SetLatest
	return keep
}
