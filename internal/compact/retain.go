package compact

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
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
	// Tombstones are the range tombstones of the inputs. An entry below one of
	// them is dropped as if a delete of its key stood there.
	Tombstones *tombstone.Set
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
// entries and tombstones finds what a read of all entries and tombstones finds.
type retention struct {
	rules Rules
	key   []byte        // of the entries being judged
	kept  int           // versions of key kept so far
	newer entry.Version // of the entry of key judged last
	ended bool          // older versions of key are invisible to everybody
	first bool          // no entry seen yet

	covers *tombstone.Cover // of all tombstones; nil: there are none
	hides  *tombstone.Cover // of those that all readers see; likewise
}

func newRetention(r Rules) *retention {
	if r.Versions < 1 {
		r.Versions = 1
	}
	return &retention{
		rules: r, first: true,
		covers: tombstone.NewCover(entry.MaxVersion, r.Tombstones),
		hides:  tombstone.NewCover(r.Watermark, r.Tombstones),
	}
}

func (t *retention) judge(e *entry.Entry) verdict {
	if t.first || !bytes.Equal(t.key, e.Key) {
		t.key = append(t.key[:0], e.Key...)
		t.kept, t.newer, t.ended, t.first = 0, tombstone.Pending, false, false
	}
	if t.covers != nil {
		t.cover(e)
	}
	t.newer = e.Version
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

// cover judges the deletes that tombstones put between e and the newer version
// of its key before it. Of several the newest counts. One of the very version of
// the newer entry is of its transaction, and so is no version by itself.
func (t *retention) cover(e *entry.Entry) {
	if v := between(t.covers, e, t.newer); v > t.rules.Watermark {
		t.kept++
	}
	if t.hides != nil && between(t.hides, e, t.newer) > 0 {
		t.ended = true
	}
}

// between is the newest version of a tombstone over e that is less than newer; 0
// if none is.
func between(c *tombstone.Cover, e *entry.Entry, newer entry.Version) entry.Version {
	v := c.Newest(e.Key)
	if v >= newer {
		v = c.Before(e.Key, newer)
	}
	if v <= e.Version {
		return 0
	}
	return v
}

// tombstones returns those that are still needed. Of those that all readers see
// the newest at each place does for all; and at the bottom, where everything
// that they cover was dropped, only commits that are checked may ask for it.
func (r *Rules) tombstones() []tombstone.Tombstone {
	kept := tombstone.Flatten(r.Watermark, r.Tombstones)
	if r.Bottom {
		kept = slices.DeleteFunc(kept, func(t tombstone.Tombstone) bool { return t.Version <= r.Checked })
	}
	for _, t := range r.Tombstones.All() {
		if t.Version > r.Watermark {
			kept = append(kept, t)
		}
	}
	return kept
}
