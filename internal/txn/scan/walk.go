package scan

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/view"
)

// walk is an iterator over what a transaction sees within bounds, in the pinned View and in
// its own writes: the live entry of each key or, with all, every version and delete. A move
// returns whether it has found an entry; w.entry is that entry until the next move.
type walk struct {
	src        iterator.Iterator
	store      iterator.Iterator // the store's part of src
	own        iterator.Iterator // the transaction's own writes in src; nil: there are none
	ownChanges int               // of the writes, when own was made
	clock      Clock             // for entries that expire
	lo, hi     []byte            // bounds of stored keys, [lo, hi)
	at         entry.Version     // show no newer version
	since      entry.Version     // show only newer versions
	all        bool              // show all versions and deletes
	cover      *rangedel.Cover   // what range deletes hide; nil: nothing; with all, src deals with that

	storeCover *rangedel.Cover // what range deletes of the store hide
	pin        *view.Pin       // of the store's part
	streak     streak          // deleted keys in a row that a move has passed
	lookahead  lookahead       // the next entries that are known to be visible

	entry    *entry.Entry
	touched  byte        // the last byte of its value
	key      []byte      // the last key that was met, except in known moves; unused with all
	backward bool        // entry is &saved, and src is before its key; never with all
	ahead    bool        // when backward: src is at an entry
	saved    entry.Entry // the current entry when backward; its Key is key
}

// setSource sets src to the store's part, merged with own if that is not nil. cover is what range
// deletes hide. A seek must follow.
func (w *walk) setSource(own iterator.Iterator, cover *rangedel.Cover) {
	w.src, w.own, w.cover = w.store, own, cover
	if own != nil {
		// Own entries have the greatest version, so they come before the store's for each key.
		w.src = iterator.Merge([]iterator.Iterator{own, w.store})
	}
	if !w.all {
		w.lookahead.source, _ = w.src.(iterator.Lookahead)
	} else if cover != nil {
		w.src = &history{Iterator: w.src, at: w.at, cover: cover}
	}
}

// addOwnWrites makes the walk see the transaction's writes as they are now. A seek must follow.
func (w *walk) addOwnWrites(p *pending.Writes) {
	// Most transactions only read, or write before they scan.
	if p.Changes() == w.ownChanges {
		return
	}
	if w.own != nil {
		// It may hold files that the writes were moved to.
		w.own.Close()
	}
	// A new iterator: the order of the one before does not have the new writes.
	w.ownChanges = p.Changes()
	cover := w.storeCover
	if own := p.RangeDeletes(); len(own) > 0 {
		cover = cover.WithPending(own...)
	}
	w.setSource(p.Iterator(), cover)
}

// isSeen reports whether a transaction that reads the version at sees entries of version v. It
// always sees its own, which have the version rangedel.Pending.
func isSeen(at, v entry.Version) bool { return v <= at || v == rangedel.Pending }

// seekKey moves to the first entry whose key is key or greater or, backward, to the last one whose
// key is less.
func (w *walk) seekKey(key []byte, backward bool) bool {
	// Else a walk that returns to the key that it was at would take it for an older version of
	// itself.
	w.key = w.key[:0]
	w.lookahead.forgetKnown()
	if backward {
		if bytes.Compare(key, w.hi) > 0 {
			key = w.hi
		}
		return w.goBack(w.src.SeekLT(key))
	}
	if bytes.Compare(key, w.lo) < 0 {
		key = w.lo
	}
	return w.goOn(w.src.SeekGE(key))
}

func (w *walk) moveOn(backward bool) bool {
	if backward {
		return w.movePrev()
	}
	return w.moveNext()
}

func (w *walk) moveNext() bool {
	switch {
	case w.entry == nil:
		return false
	// src is before the key, as the walk back has looked at all its versions.
	case w.backward:
		// It passes the versions of this key again, as key still says which one was shown.
		return w.goOn(w.src.SeekGE(w.key))
	}
	return w.moveOnwards()
}

// moveOnwards moves forward from the entry. src is at it.
func (w *walk) moveOnwards() bool {
	if w.lookahead.takeKnown() || w.lookahead.isDue() && w.lookAhead() && w.lookahead.takeKnown() {
		return true
	}
	// Before src moves: the entry lies in memory of src, and older versions of its key may follow.
	w.noteKey()
	return w.goOn(w.src.Next())
}

// noteKey sets key to the key of the entry, which known moves leave out.
func (w *walk) noteKey() {
	if w.lookahead.moved {
		w.key = append(w.key[:0], w.entry.Key...)
		w.lookahead.moved = false
	}
}

// lookAhead asks src which of the next entries will be shown for sure.
func (w *walk) lookAhead() bool {
	until, least := w.hi, w.since+1
	// Deleted and expiring entries, and older versions, are for the source to find.
	if w.cover != nil {
		// Up to the end of the stretch, range deletes hide exactly what is older than least.
		least = max(least, w.cover.Newest(w.entry.Key))
		if w.cover.Err() != nil {
			return false
		}
		if _, end := w.cover.Stretch(); end != nil && bytes.Compare(end, until) < 0 {
			until = end
		}
	}
	return w.lookahead.askSource(until, least, w.at)
}

func (w *walk) movePrev() bool {
	switch {
	case w.entry == nil:
		return false
	case w.backward:
		return w.goBack(w.ahead)
	case w.all:
		return w.goBack(w.src.Prev())
	}
	// The fast moves forward have not kept key, by which newer versions are told from other keys.
	w.noteKey()
	w.lookahead.forgetKnown()
	// Before the current entry come newer versions of its key, which the reader does not see.
	ok := w.src.Prev()
	for newer := 1; ok && bytes.Equal(w.src.Entry().Key, w.key); newer++ {
		if newer == patience {
			ok = w.src.SeekLT(w.key)
			break
		}
		ok = w.src.Prev()
	}
	return w.goBack(ok)
}

// patience is how many versions of a key that don't count are passed one by one; then a seek
// skips the rest. hiddenPatience is the same for keys that a range delete hides.
const (
	patience       = 16
	hiddenPatience = 4
)

// goOn goes on to the next entry to show. ok says that src is at an entry.
func (w *walk) goOn(ok bool) bool {
	// A streak belongs to one move: what lies between two moves was shown to the user, so it isn't
	// deleted.
	w.backward, w.streak.keys = false, 0
	hidden := 0
	for older, newer := 0, 0; ok; ok = w.src.Next() {
		// A key with a long history is left by a seek rather than step by step, and so is
		// what was written since the reader began.
		switch {
		case older == patience:
			w.key = append(w.key, 0)
			ok = w.src.SeekGE(w.key)
			older, w.key = 0, w.key[:0] // what was sought may be a key
		case newer == patience:
			ok, newer = w.skipNewer(), 0
		}
		if !ok {
			break
		}
		e := w.src.Entry()
		// One hidden key after the other tells of a deleted range: runs know where it
		// ends.
		if hidden > hiddenPatience {
			hidden = 0
			if e = w.skipHidden(e); e == nil {
				break
			}
		}
		// One byte decides most often: all bounds begin with the number of a keyspace.
		if e.Key[0] >= w.hi[0] && bytes.Compare(e.Key, w.hi) >= 0 {
			break
		}
		if !isSeen(w.at, e.Version) {
			newer++
			continue
		}
		newer = 0
		if !w.all {
			if sameKey(e.Key, w.key) {
				older++
				continue
			}
			// The first version that is seen decides what the key shows.
			older = 0
			w.key = append(w.key[:0], e.Key...)
			if w.cover != nil && e.Version < w.cover.Newest(e.Key) {
				if w.cover.Err() != nil {
					return w.failMove()
				}
				hidden++
				w.countDeleted(e.Key, w.cover.Newest(e.Key))
				continue
			}
		}
		if w.isShown(e) {
			w.endStreak(e.Key)
			return w.showEntry(e)
		}
		w.passOver(e)
	}
	w.endStreak(nil)
	w.entry = nil
	return false
}

// skipNewer goes on over what is newer than the reader sees, if src is at such an entry.
// It reports whether src is at an entry.
func (w *walk) skipNewer() bool {
	return isSeen(w.at, w.src.Entry().Version) || w.src.SkipNewer(w.at)
}

// failMove ends a move that doesn't know what range deletes hide.
func (w *walk) failMove() bool {
	// Without the streak: keys that could not be judged must not be noted as deleted.
	w.entry, w.streak.keys = nil, 0
	return false
}

// err says why the last move came to no entry: nil at the end.
func (w *walk) err() error {
	if err := w.src.Err(); err != nil || w.cover == nil {
		return err
	}
	return w.cover.Err()
}

// showEntry makes e the entry, and reads as much of its value as proves that a short one can
// be read: the user has no guard on.
func (w *walk) showEntry(e *entry.Entry) bool {
	w.entry = e
	if n := len(e.Value); n > 0 {
		w.touched = e.Value[n-1]
	}
	return true
}

// skipHidden goes on from e, where src is, over what a range delete hides if it
// hides e too, and returns what src is at then, nil if nothing.
func (w *walk) skipHidden(e *entry.Entry) *entry.Entry {
	v := w.cover.Newest(e.Key)
	if e.Version >= v {
		return e
	}
	// Only this transaction has deleted what is skipped now: others still see it.
	if v == rangedel.Pending {
		w.endStreak(e.Key)
	}
	_, end := w.cover.Stretch()
	if end == nil {
		end = w.hi
	}
	if !w.src.SkipGE(end, v) {
		return nil
	}
	return w.src.Entry()
}

// sameKey is bytes.Equal for stored keys, which are never empty: neighbours most
// often differ at the end.
func sameKey(a, b []byte) bool {
	last := len(a) - 1
	return len(a) == len(b) && a[last] == b[last] && bytes.Equal(a, b)
}

// goBack goes back to the next entry to show. ok says that src is at an entry.
func (w *walk) goBack(ok bool) bool {
	if w.all {
		return w.goBackAll(ok)
	}
	w.backward, w.streak.keys = true, 0
	hidden := 0
	for ok {
		e := w.src.Entry()
		if w.isBeforeBounds(e.Key) {
			break
		}
		// Versions come oldest first: which one counts is known before the next key.
		var found bool
		if found, ok = w.saveNewest(e); w.src.Err() != nil {
			break
		}
		if found && w.cover != nil && w.saved.Version < w.cover.Newest(w.key) {
			if w.cover.Err() != nil {
				return w.failMove()
			}
			w.countDeleted(w.key, w.cover.Newest(w.key))
			if hidden++; ok && hidden > hiddenPatience {
				ok = w.skipHiddenBack()
			}
			continue
		}
		if !found {
			continue
		}
		if w.isShown(&w.saved) {
			w.endStreak(w.key)
			w.ahead = ok
			return w.showEntry(&w.saved)
		}
		w.passOver(&w.saved)
	}
	w.endStreak(nil)
	w.entry = nil
	return false
}

// goBackAll is backwards for every version.
func (w *walk) goBackAll(ok bool) bool {
	for ; ok; ok = w.src.Prev() {
		e := w.src.Entry()
		if w.isBeforeBounds(e.Key) {
			break
		}
		if isSeen(w.at, e.Version) && w.isShown(e) {
			return w.showEntry(e)
		}
	}
	w.entry = nil
	return false
}

// isBeforeBounds reports whether key is before the bounds. A bound of one byte, the first
// of a keyspace, is compared most often.
func (w *walk) isBeforeBounds(key []byte) bool {
	return (len(w.lo) > 1 || key[0] < w.lo[0]) && bytes.Compare(key, w.lo) < 0
}

// skipHiddenBack goes back from the entry that src is at, unless it must be met,
// over what the range delete hides that hides w.key. It reports whether src is at
// an entry.
func (w *walk) skipHiddenBack() bool {
	v := w.cover.Newest(w.key)
	begin, _ := w.cover.Stretch()
	if begin == nil {
		begin = w.lo
	}
	// src may be at a newer entry, or before the range already: that must be met.
	if e := w.src.Entry(); e.Version >= v || bytes.Compare(e.Key, begin) < 0 {
		return true
	}
	return w.src.SkipLT(begin, v)
}

// saveNewest saves the newest entry up to w.at of the key of e, the oldest entry of
// that key, where src is. It leaves src before the key, and reports whether there
// was such an entry, and whether src is at an entry.
func (w *walk) saveNewest(e *entry.Entry) (found, ok bool) {
	w.key = append(w.key[:0], e.Key...)
	for older := 1; ; older++ {
		if isSeen(w.at, e.Version) {
			w.saved, found = *e, true
		}
		if older == patience {
			return w.saveNewestBySeek()
		}
		if ok = w.src.Prev(); !ok {
			break
		}
		if e = w.src.Entry(); !sameKey(e.Key, w.key) {
			break
		}
	}
	// A copy, as src has moved on.
	w.saved.Key = w.key
	return found, ok
}

// saveNewestBySeek is newest for a key with a long history: that is passed by seeks,
// from the newest version on.
func (w *walk) saveNewestBySeek() (found, ok bool) {
	for ok = w.src.SeekGE(w.key); ok && sameKey(w.src.Entry().Key, w.key); ok = w.src.SkipNewer(w.at) {
		if e := w.src.Entry(); isSeen(w.at, e.Version) {
			w.saved, found = *e, true
			w.saved.Key = w.key
			break
		}
	}
	// An error must not look like the end of the versions: an older state of the key would be
	// shown.
	if !ok && w.src.Err() != nil {
		return false, false
	}
	return found, w.src.SeekLT(w.key)
}

// isShown reports whether e, the newest of its key or, with all, any, is shown.
func (w *walk) isShown(e *entry.Entry) bool {
	switch {
	// The newest version decides: what it replaced is not shown either.
	case e.Version <= w.since:
		return false
	case w.all:
		return true
	case e.Expires == 0:
		return e.Kind != entry.Delete
	}
	return e.Live(w.clock.Now())
}
