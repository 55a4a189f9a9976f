package scan

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/view"
)

// streak counts the deleted keys that a walk passes one after the other. If they are many, the Pin
// notes their range as emptied, so that the next seek skips it.
type streak struct {
	keys  int    // deleted keys so far
	begin []byte // the streakBegins-th of them, where the noted range begins
}

const (
	streakBegins = 16  // most streaks end before so many keys, and copy no key
	streakNoted  = 128 // keys from which a streak is noted; to walk them takes some 10 us, a note less than 1
)

// countDeleted counts a key that a delete of any kind hides; by is the version of the delete. A
// delete by the transaction itself ends the streak, as other readers still see the key.
func (w *walk) countDeleted(key []byte, by entry.Version) {
	if by == rangedel.Pending {
		w.endStreak(key)
		return
	}
	s := &w.streak
	if s.keys++; s.keys == streakBegins {
		s.begin = append(s.begin[:0], key...)
	}
}

// endStreak ends the streak before key, or behind it in a walk back: the key is visible, or may be
// to other readers. A nil key is the bound: there is no further key.
func (w *walk) endStreak(key []byte) {
	if w.streak.keys >= streakNoted {
		w.noteStreak(key)
	}
	w.streak.keys = 0
}

// noteStreak notes the range of the streak up to a key, or up to the bound.
//
// It notes nothing if the walk may have left out keys for another reason than deletes, because
// of Since or of an error: other readers may see those keys.
func (w *walk) noteStreak(key []byte) {
	switch {
	case w.since > 0, key == nil && w.err() != nil:
	case !w.backward && key == nil:
		w.pin.NoteEmptied(w.streak.begin, w.hi)
	case !w.backward:
		w.pin.NoteEmptied(w.streak.begin, key)
	case key == nil:
		w.pin.NoteEmptied(w.lo, w.streak.begin)
	default:
		// key itself is visible, so the range begins right behind it.
		w.pin.NoteEmptied(append(bytes.Clone(key), 0), w.streak.begin)
	}
}

// passOver goes past e, which is not shown: it is deleted, or it has expired. Readers with an older
// clock still see what has expired, so that ends the streak.
func (w *walk) passOver(e *entry.Entry) {
	if e.Kind == entry.Delete {
		w.countDeleted(e.Key, e.Version)
	} else {
		w.endStreak(e.Key)
	}
}

// PastDeletes seeks from a stored key to the first visible one, and returns that, or the end of the
// keyspace. It is called for what the seek notes on its way (streak).
func PastDeletes(p *view.Pin, now uint64, from []byte) (next []byte, err error) {
	id, _ := entry.KeyspaceOf(from)
	end := entry.AfterKeyspace(id)
	s := Begin(&Config{Pin: p, Clock: fixed(now), Lo: from, Hi: end, At: p.Version(), KeysOnly: true})
	defer s.FreeMemory()
	defer s.Close()
	if s.Seek(from, false) {
		return bytes.Clone(s.Entry().Key), nil
	}
	return end, s.Err()
}

// fixed is a Clock that stands.
type fixed uint64

func (f fixed) Now() uint64 { return uint64(f) }
