package compact

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

// Rules say which entries a flush or compaction may drop. They are made once, before the work
// begins.
type Rules struct {
	// History is that of all keyspaces that Keyspaces doesn't have.
	History
	// Keyspaces have a History of their own; nil: none has.
	Keyspaces map[entry.KeyspaceID]History
	// Dropped reports whether a keyspace was dropped: then its entries and range deletes are
	// garbage. A reader that began before the drop has an older View. nil: none was dropped.
	Dropped func(id entry.KeyspaceID) bool
	// Checked is the oldest version that an open transaction reads. Its commit will be checked
	// against all later deletes, so these stay.
	Checked entry.Version
	// Bottom says that no run is older than the inputs, so that a delete has nothing left to
	// hide.
	Bottom bool
	// Older are the runs that are older than the inputs, unless Bottom. A range delete that
	// overlaps none of them has nothing left to hide.
	Older []*layout.RunMeta
	// RangeDeletes are those of the inputs, each within one keyspace. Each counts as a
	// delete of all keys in its range.
	RangeDeletes []rangedel.Source
	// Now is the time in Unix milliseconds by which entries expire.
	Now uint64
}

// History says which old versions of a keyspace stay.
type History struct {
	// Watermark is the oldest version that a reader may still ask for; versions within the retained
	// age are at or above it. A reader of an older version has an older View, whose files stay.
	Watermark entry.Version
	// Floor is a version below which no reader may ask for any more. It never falls. The Watermark
	// does if the clock goes back, or a keyspace retains more than before: then entries stay that
	// would have gone, but range deletes up to the Floor were laid over each other already.
	Floor entry.Version
	// Versions is how many of a key's newest versions are kept at least; 0 means 1.
	Versions int
}

// seenByAll is the newest version of range deletes that all readers see.
func (h History) seenByAll() entry.Version { return max(h.Watermark, h.Floor) }

// verdict says what happens to an entry.
type verdict uint8

const (
	keep verdict = iota // it is written
	drop                // nobody can see it any more, and it has nothing left to hide
	bury                // it has expired: a delete takes its place
)

// retention applies Rules to entries that arrive in entry.Compare order.
//
// Invariant: for every version at or above the watermark of a keyspace that was not dropped, a read
// of the kept entries and range deletes finds what a read of all entries and range deletes finds.
type retention struct {
	rules    Rules            // rules of the inputs
	history  History          // rules of the keyspace of key
	keyspace entry.KeyspaceID // keyspace of key
	dropped  bool             // keyspace was dropped
	key      []byte           // key of the entries that are judged now; nil before the first
	kept     int              // versions of key kept so far
	newer    entry.Version    // version of the entry of key that was judged last; Pending: none
	ended    bool             // no reader can see older versions of key

	newerKept  int           // number of versions of key kept that are newer than the entry judged last
	replacedAt entry.Version // version by which that entry was replaced; 0: it is the newest of key
	deletedAt  entry.Version // version of the next newer delete, or the like, of key; 0: there is none
	ends       bool          // the entry judged last is such a delete

	covers *rangedel.Cover // of all range deletes; nil: there are none
	hides  *rangedel.Cover // of the range deletes that all readers see; nil: there are none
	failed error           // why range deletes can't be read; verdicts since then are wrong
}

// newRetention returns the retention of these rules, before the first entry.
func newRetention(r Rules) *retention {
	return &retention{rules: r, covers: rangedel.NewForwardCover(entry.MaxVersion, r.RangeDeletes...)}
}

// closeCovers releases the range deletes. failed can still be read.
func (t *retention) closeCovers() {
	t.covers.Close()
	t.hides.Close()
}

// enterKeyspace sets the rules for the keyspace of key, if that is another one than before.
func (t *retention) enterKeyspace(key []byte) {
	id, ok := entry.KeyspaceOf(key)
	if t.key != nil && id == t.keyspace {
		return
	}
	t.keyspace, t.history = id, t.rules.HistoryOf(id)
	t.dropped = ok && t.rules.isDropped(id)
	// Keyspaces retain different versions, so different range deletes are seen by all.
	t.hides.Close()
	t.hides = rangedel.NewForwardCover(t.history.Watermark, t.rules.RangeDeletes...)
}

// judge says what happens to e, the next entry.
func (t *retention) judge(e *entry.Entry) verdict {
	// Another key: what was known of the last one does not count.
	if !bytes.Equal(t.key, e.Key) {
		t.enterKeyspace(e.Key)
		t.key = append(t.key[:0], e.Key...)
		t.kept, t.newer, t.ended = 0, rangedel.Pending, false
		t.deletedAt, t.ends = 0, false
	}
	if t.dropped {
		return drop
	}
	// These three look at e's newer neighbour before newer becomes e.
	t.countReplacement()
	if t.covers != nil {
		t.applyRangeDeletes(e)
	}
	t.newer, t.newerKept = e.Version, t.kept
	// Nobody needs older versions once all readers see e.
	t.ends = !e.Live(t.rules.Now) || e.Kind == entry.SetLatest
	// Above the watermark a reader may ask for any version: only an expired value may be dropped.
	if e.Version > t.history.Watermark {
		t.kept++
		if e.Kind != entry.Delete && !e.Live(t.rules.Now) {
			return bury
		}
		return keep
	}
	// A newer version at or below the watermark is what all readers see.
	if t.ended {
		return drop
	}
	// All readers see that the key is gone, so older versions can go.
	if !e.Live(t.rules.Now) {
		t.ended = true
		switch {
		// Nothing older is left to hide, and no open transaction's check needs the delete.
		case t.rules.Bottom && e.Version <= t.rules.Checked:
			return drop
		case e.Kind == entry.Delete:
			return keep
		default:
			// Nobody sees the value, but runs below may have older ones, which must stay hidden.
			return bury
		}
	}
	t.kept++
	// SetLatest says that older versions need not be kept, however many there should be.
	t.ended = t.kept >= t.history.Versions || e.Kind == entry.SetLatest
	return keep
}

// countReplacement notes by what the next older entry of key was replaced, range deletes aside.
func (t *retention) countReplacement() {
	if t.replacedAt = 0; t.newer != rangedel.Pending {
		t.replacedAt = t.newer
	}
	if t.ends {
		t.deletedAt = t.newer
	}
}

// applyRangeDeletes takes into account the range deletes with a version between that of e and that
// of the newer entry of its key. The newest of them counts as one version of the key. A range
// delete of the same version as the newer entry is of the same transaction, and does not count.
func (t *retention) applyRangeDeletes(e *entry.Entry) {
	v := newestBetween(t.covers, e, t.newer)
	if v > 0 {
		t.replacedAt, t.deletedAt = v, v
	}
	// Above the watermark some reader sees the delete as the key's version.
	if v > t.history.Watermark {
		t.kept++
	}
	// All readers see the delete: they need nothing that is older.
	if t.hides != nil && newestBetween(t.hides, e, t.newer) > 0 {
		t.ended = true
		t.failed = cmp.Or(t.failed, t.hides.Err())
	}
	t.failed = cmp.Or(t.failed, t.covers.Err())
}

// newestBetween returns the newest version of a range delete over e that is greater than e's
// version and less than newer; 0 if there is none.
func newestBetween(c *rangedel.Cover, e *entry.Entry, newer entry.Version) entry.Version {
	v := c.Newest(e.Key)
	// The newest may be too new for this place between two versions: ask for the next older one.
	if v >= newer {
		v = c.Before(e.Key, newer)
	}
	if v <= e.Version {
		return 0
	}
	return v
}

// isDropped reports whether a keyspace was dropped.
func (r *Rules) isDropped(id entry.KeyspaceID) bool { return r.Dropped != nil && r.Dropped(id) }

// HistoryOf returns the rules for old versions of a keyspace. Of one that was dropped, no version
// stays.
func (r *Rules) HistoryOf(id entry.KeyspaceID) History {
	if h, found := r.Keyspaces[id]; found {
		return h
	}
	if r.isDropped(id) {
		return History{Watermark: entry.MaxVersion}
	}
	return r.History
}

// countSuperseded adds the entry judged last, which stays, to the account of what was replaced, if
// it was. The account tells when a later compaction can drop it.
func (t *retention) countSuperseded(a *layout.Account, e *entry.Entry) {
	s := layout.Superseded{Keyspace: t.keyspace, Version: t.replacedAt, Entries: 1, Bytes: uint64(len(e.Key) + len(e.Value))}
	if e.Separated {
		s.Separated = e.Handle.Length
	}
	switch {
	case e.Kind == entry.Delete && t.rules.Bottom && e.Version > max(t.history.Watermark, t.rules.Checked):
		s.Version = e.Version // it goes with what it hides
	case t.replacedAt == 0:
		return
	// It is beyond the versions that are kept: it goes when its replacement is seen by all.
	case t.newerKept >= max(t.history.Versions, 1):
	// A newer delete takes it along, whatever number of versions is kept.
	case t.deletedAt != 0:
		s.Version = t.deletedAt
	default:
		s.Keep = uint64(t.history.Versions)
	}
	a.Add(s)
}
