package compact

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/meta"
)

// Rules say which entries a flush or compaction may drop. They are made once, before the work
// begins.
type Rules struct {
	// Watermark is the oldest version that a reader may still ask for; versions within the
	// retained age are at or above it. A reader of an older version has an older View, whose
	// files stay.
	Watermark entry.Version
	// Floor is a version below which no reader may ask for any more. It never falls. The Watermark
	// does if the clock goes back, or a keyspace retains more than before: then entries stay that
	// would have gone, but range deletes up to the Floor were laid over each other already.
	Floor entry.Version
	// Versions is how many of a key's newest versions are kept at least; 0 means 1.
	Versions int
	// Keyspaces have a Watermark, Floor and Versions of their own; nil: none has.
	Keyspaces map[entry.KeyspaceID]History
	// Dropped reports whether a keyspace was dropped: then its entries and tombstones are
	// garbage. A reader that began before the drop has an older View. nil: none was dropped.
	Dropped func(id entry.KeyspaceID) bool
	// Checked is the oldest version that an open transaction reads. Its commit will be checked
	// against all later deletes, so these stay.
	Checked entry.Version
	// Bottom says that no run is older than the inputs, so that a delete has nothing left to
	// hide.
	Bottom bool
	// Older are the runs that are older than the inputs, unless Bottom. A range tombstone that
	// overlaps none of them has nothing left to hide.
	Older []*meta.Run
	// Tombstones are the range tombstones of the inputs, each within one keyspace. Each counts as
	// a delete of all keys in its range.
	Tombstones []rangedel.Source
	// Now is the time in Unix milliseconds by which entries expire.
	Now uint64
}

// History says which old versions of one keyspace stay; Rules has the same for all others.
type History struct {
	Watermark entry.Version
	Floor     entry.Version
	Versions  int
}

// seen is the newest version of range deletes that all readers see.
func (h History) seen() entry.Version { return max(h.Watermark, h.Floor) }

// verdict says what happens to an entry.
type verdict uint8

const (
	keep   verdict = iota
	drop           // nobody can see it any more
	bury           // expired: it is replaced by a delete
	vanish         // a delete, or an expired value, with nothing left to hide
)

// retention applies Rules to entries that arrive in entry.Compare order.
//
// Invariant: for every version at or above the watermark of a keyspace that was
// not dropped, a read of the kept entries and tombstones finds what a read of all
// entries and tombstones finds.
type retention struct {
	rules    Rules
	history  History          // of the keyspace of key
	keyspace entry.KeyspaceID // of key
	dropped  bool             // keyspace was dropped
	key      []byte           // of the entries being judged
	kept     int              // versions of key kept so far
	newer    entry.Version    // of the entry of key judged last
	ended    bool             // no reader can see older versions of key
	first    bool             // no entry seen yet

	above  int           // versions of key kept that are newer than the entry judged last
	beyond entry.Version // by which that entry was replaced; 0 = it is the newest of key
	cut    entry.Version // of the next newer delete, or the like, of key; 0 = there is none
	ends   bool          // the entry judged last is such a delete

	covers *rangedel.Cover // of all tombstones; nil: there are none
	hides  *rangedel.Cover // of the tombstones that all readers of keyspace see; nil: there are none
	failed error           // why tombstones can't be read; verdicts since then are wrong
}

func newRetention(r Rules) *retention {
	return &retention{rules: r, first: true, covers: rangedel.NewForwardCover(entry.MaxVersion, r.Tombstones...)}
}

// close releases the tombstones. failed can still be read.
func (t *retention) close() {
	t.covers.Close()
	t.hides.Close()
}

// enterKeyspace sets the rules for the keyspace of key, if that is another one than before.
func (t *retention) enterKeyspace(key []byte) {
	id, ok := entry.KeyspaceOf(key)
	if !t.first && id == t.keyspace {
		return
	}
	t.keyspace, t.history = id, t.rules.Of(id)
	t.dropped = ok && t.rules.dropped(id)
	t.hides.Close()
	t.hides = rangedel.NewForwardCover(t.history.Watermark, t.rules.Tombstones...)
}

func (t *retention) judge(e *entry.Entry) verdict {
	if t.first || !bytes.Equal(t.key, e.Key) {
		t.enterKeyspace(e.Key)
		t.key = append(t.key[:0], e.Key...)
		t.kept, t.newer, t.ended, t.first = 0, rangedel.Pending, false, false
		t.cut, t.ends = 0, false
	}
	if t.dropped {
		return drop
	}
	t.replaced()
	if t.covers != nil {
		t.cover(e)
	}
	t.newer, t.above = e.Version, t.kept
	t.ends = t.endsHistory(e)
	// Above the watermark a reader may ask for any version: only an expired value may be dropped.
	if e.Version > t.history.Watermark {
		t.kept++
		if e.Kind != entry.Delete && !e.Live(t.rules.Now) {
			return bury
		}
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
	t.ended = t.kept >= t.history.Versions || e.Kind == entry.SetLatest
	return keep
}

// endsHistory reports whether nobody needs older versions once all readers see e.
func (t *retention) endsHistory(e *entry.Entry) bool {
	return !e.Live(t.rules.Now) || e.Kind == entry.SetLatest
}

// replaced notes by what the next older entry of key was replaced, range tombstones aside.
func (t *retention) replaced() {
	if t.beyond = 0; t.newer != rangedel.Pending {
		t.beyond = t.newer
	}
	if t.ends {
		t.cut = t.newer
	}
}

// cover takes into account the range tombstones with a version between that of e and that of the
// newer entry of its key. The newest of them counts as one version of the key. A tombstone of the
// same version as the newer entry is of the same transaction, and does not count.
func (t *retention) cover(e *entry.Entry) {
	v := between(t.covers, e, t.newer)
	if v > 0 {
		t.beyond, t.cut = v, v
	}
	if v > t.history.Watermark {
		t.kept++
	}
	if t.hides != nil && between(t.hides, e, t.newer) > 0 {
		t.ended = true
		t.failed = cmp.Or(t.failed, t.hides.Err())
	}
	t.failed = cmp.Or(t.failed, t.covers.Err())
}

// between returns the newest version of a tombstone over e that is greater than e's version
// and less than newer; 0 if there is none.
func between(c *rangedel.Cover, e *entry.Entry, newer entry.Version) entry.Version {
	v := c.Newest(e.Key)
	if v >= newer {
		v = c.Before(e.Key, newer)
	}
	if v <= e.Version {
		return 0
	}
	return v
}

// dropped reports whether a keyspace was dropped.
func (r *Rules) dropped(id entry.KeyspaceID) bool { return r.Dropped != nil && r.Dropped(id) }

// Of returns the rules for old versions of a keyspace. Of one that was dropped, no version stays.
func (r *Rules) Of(id entry.KeyspaceID) History {
	if h, found := r.Keyspaces[id]; found {
		return h
	}
	if r.dropped(id) {
		return History{Watermark: entry.MaxVersion}
	}
	return History{r.Watermark, r.Floor, r.Versions}
}

// countSuperseded adds the entry judged last, which stays, to the account of what was superseded, if it was.
func (t *retention) countSuperseded(a *meta.Account, e *entry.Entry) {
	s := meta.Superseded{Keyspace: t.keyspace, Version: t.beyond, Entries: 1, Bytes: uint64(len(e.Key) + len(e.Value))}
	if e.Separated {
		s.Separated = e.Handle.Length
	}
	switch {
	case e.Kind == entry.Delete && t.rules.Bottom && e.Version > max(t.history.Watermark, t.rules.Checked):
		s.Version = e.Version // it goes with what it hides
	case t.beyond == 0:
		return
	case t.above >= max(t.history.Versions, 1):
	case t.cut != 0:
		s.Version = t.cut
	default:
		s.Keep = uint64(t.history.Versions)
	}
	a.Add(s)
}
