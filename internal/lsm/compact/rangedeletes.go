package compact

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// rangeDeleteWriter is a run.Writer to which all entries were added.
type rangeDeleteWriter interface {
	AddRangeDelete(t rangedel.Delete) error
	AddHistory(list []rangedel.Delete) error
	AddNewest(t rangedel.Delete) error
}

// writeRangeDeletes adds the range deletes that are still needed to w. Where all readers see
// several of them, the newest is enough. If that has nothing older left to hide, it stays only as
// long as the check of a commit may ask for it (Rules.Checked).
func (r *Rules) writeRangeDeletes(w rangeDeleteWriter, a *layout.Account) error {
	err := r.eachKeyspace(func(lo, hi []byte, h History) error {
		return r.flattenVisible(lo, hi, h.seenByAll(), func(t rangedel.Delete) error {
			switch {
			case t.Version > h.Watermark: // entries that it hides stay, too
				r.countRetained(a, &t)
			case t.Version <= r.Checked && !r.hidesOlder(t):
				return nil
			}
			return w.AddRangeDelete(t)
		})
	})
	if err != nil {
		return err
	}
	forests, err := r.writeHistory(w, a)
	if err != nil || forests < 2 {
		return err
	}
	// Readers of several forests would ask each of them. So what all of them say together is
	// written, too.
	return r.eachKeyspace(func(lo, hi []byte, h History) error {
		return r.flattenVisible(lo, hi, entry.MaxVersion, func(t rangedel.Delete) error {
			if t.Version <= h.seenByAll() {
				return nil
			}
			return w.AddNewest(t)
		})
	})
}

// eachKeyspace calls fn for the keys from lo to hi of each keyspace that has range deletes and was
// not dropped. lo is the first key that one covers; a nil hi is no bound.
func (r *Rules) eachKeyspace(fn func(lo, hi []byte, h History) error) error {
	all := rangedel.NewForwardCover(entry.MaxVersion, r.RangeDeletes...)
	defer all.Close()
	for at := []byte{0}; all != nil && at != nil; {
		covered := all.Newest(at) > 0
		if err := all.Err(); err != nil {
			return err
		}
		// A gap ends where the next range delete begins.
		if !covered {
			_, next := all.Stretch()
			at = bytes.Clone(next)
			continue
		}
		lo := at
		at = nil
		id, known := entry.KeyspaceOf(lo)
		if known {
			at = entry.AfterKeyspace(id)
		}
		if r.isDropped(id) {
			continue
		}
		if err := fn(lo, at, r.HistoryOf(id)); err != nil {
			return err
		}
	}
	return nil
}

// flattenVisible calls fn for what a reader of version at sees of the range deletes in [lo, hi).
func (r *Rules) flattenVisible(lo, hi []byte, at entry.Version, fn func(rangedel.Delete) error) error {
	cover := rangedel.NewForwardCover(at, r.RangeDeletes...)
	defer cover.Close()
	return cover.Flatten(lo, hi, fn)
}

// hidesOlder reports whether older runs may have entries that t deletes.
func (r *Rules) hidesOlder(t rangedel.Delete) bool {
	if r.Bottom || len(r.Older) == 0 {
		return !r.Bottom
	}
	return slices.ContainsFunc(r.Older, func(o *layout.RunMeta) bool {
		return bytes.Compare(o.First, t.Hi) < 0 && bytes.Compare(t.Lo, o.Last) <= 0
	})
}

// writeHistory adds the range deletes that are newer than what all readers see, so that some
// readers don't see them. It returns the number of forests that they take.
func (r *Rules) writeHistory(w rangeDeleteWriter, a *layout.Account) (int, error) {
	// The least bound of all keyspaces, so that none is missed; each keyspace's own is checked
	// below.
	least := r.seenByAll()
	for _, h := range r.Keyspaces {
		least = min(least, h.seenByAll())
	}
	from := make([]rangedel.Sequence, len(r.RangeDeletes))
	for i, s := range r.RangeDeletes {
		if t, ok := s.(run.RangeDeletes); ok {
			if err := t.Flat(least, r.checkFlat); err != nil {
				return 0, err
			}
		}
		from[i] = s.Ordered(least)
	}
	f := forest{to: w}
	defer f.bounds.Free()
	err := rangedel.MergeSequences(from, func(t rangedel.Delete) error {
		id, _ := entry.KeyspaceOf(t.Lo)
		// Equal range deletes come from several inputs: one is enough.
		if t.Version <= r.HistoryOf(id).seenByAll() || f.endsWith(t) {
			return nil
		}
		r.countRetained(a, &t)
		return f.addCopy(t)
	})
	if err == nil {
		err = f.writeForest()
	}
	return f.written, err
}

// countRetained adds a range delete that is newer than the watermark to the account, if only
// history needs it.
func (r *Rules) countRetained(a *layout.Account, t *rangedel.Delete) {
	if r.Bottom && t.Version > r.Checked {
		id, _ := entry.KeyspaceOf(t.Lo)
		a.Add(layout.Superseded{Keyspace: id, Version: t.Version, Entries: 1, Bytes: uint64(len(t.Lo) + len(t.Hi))})
	}
}

// checkFlat returns an error for a flat range delete of a run that not all readers see. It would be
// lost: it is neither in the history, nor in what all readers see. As floors never fall, there is
// none.
func (r *Rules) checkFlat(t rangedel.Delete) error {
	id, _ := entry.KeyspaceOf(t.Lo)
	if w := r.HistoryOf(id).seenByAll(); t.Version > w {
		return fmt.Errorf("%w: a range delete of version %d that all readers saw, and readers of version %d", errs.ErrCorrupt, t.Version, w)
	}
	return nil
}

// forestBytes is how many bytes of memory a forest takes that is being made. More range deletes go
// to several forests: a compaction has a bound of memory, however long the history is.
const forestBytes = 4 << 20

// rangeDeleteBytes is the memory of a range delete in a forest beside its bounds, in bytes: of
// itself, and of its spans on each level.
const rangeDeleteBytes = 256

// forest gathers range deletes of a history, in the order of rangedel.Compare.
type forest struct {
	to      rangeDeleteWriter // gets the forest when it is full
	list    []rangedel.Delete // what was gathered
	bounds  offheap.Buffer    // memory of the bounds of list, off the Go heap
	used    []byte            // the part of bounds that is used
	written int               // number of forests written
}

// endsWith reports whether the range delete that was added last is t.
func (f *forest) endsWith(t rangedel.Delete) bool {
	n := len(f.list)
	return n > 0 && rangedel.Compare(f.list[n-1], t) == 0
}

// addCopy adds a copy of t.
func (f *forest) addCopy(t rangedel.Delete) error {
	n := len(t.Lo) + len(t.Hi)
	if len(f.used)+n+(len(f.list)+1)*rangeDeleteBytes > forestBytes {
		if err := f.writeForest(); err != nil {
			return err
		}
	}
	if len(f.list) == 0 { // bounds that are in use must not move
		f.used = f.bounds.Grow(nil, max(forestBytes, n))
	}
	lo := len(f.used)
	hi, end := lo+len(t.Lo), lo+n
	f.used = append(append(f.used, t.Lo...), t.Hi...)
	f.list = append(f.list, rangedel.Delete{Lo: f.used[lo:hi:hi], Hi: f.used[hi:end:end], Version: t.Version})
	return nil
}

// writeForest writes what was added as one forest.
func (f *forest) writeForest() error {
	if len(f.list) == 0 {
		return nil
	}
	f.written++
	err := f.to.AddHistory(f.list)
	f.list, f.used = f.list[:0], nil
	return err
}
