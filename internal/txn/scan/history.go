package scan

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// history shows what range deletes did in a walk of all versions: before a
// version that one covers stands a delete of its key, as if it had been deleted by
// itself. Of several range deletes between two versions the newest is shown; a
// key that has no version left shows none.
//
// A mark stands between the version that it hides and the newer one before it,
// if there is one. Going forward, src is at the former; going back, at the latter.
type history struct {
	iterator.Iterator // src
	at                entry.Version
	cover             *rangedel.Cover

	valid  bool // src is at an entry
	marked bool // the position is at mark, not at src
	behind bool // src is before the mark, or at no entry
	mark   entry.Entry
	key    []byte // scratch: of the entry that was left
}

var _ iterator.Iterator = (*history)(nil)

// noNewer is above all versions: there is no newer entry of the key.
const noNewer = rangedel.Pending + 1

func (h *history) First() bool { return h.markBefore(h.passUnseen(h.Iterator.First(), false), noNewer) }
func (h *history) SeekGE(key []byte) bool {
	return h.markBefore(h.passUnseen(h.Iterator.SeekGE(key), false), noNewer)
}
func (h *history) Last() bool { return h.noteMove(h.passUnseen(h.Iterator.Last(), true)) }
func (h *history) SeekLT(key []byte) bool {
	return h.noteMove(h.passUnseen(h.Iterator.SeekLT(key), true))
}

func (h *history) SkipGE([]byte, entry.Version) bool { return h.Next() }
func (h *history) SkipLT([]byte, entry.Version) bool { return h.Prev() }
func (h *history) SkipNewer(entry.Version) bool      { return h.Next() }

// Err says why a move came to no entry: nil at the end.
func (h *history) Err() error { return cmp.Or(h.Iterator.Err(), h.cover.Err()) }

func (h *history) Entry() *entry.Entry {
	if h.marked {
		return &h.mark
	}
	return h.Iterator.Entry()
}

// passUnseen goes on, in the direction backward, over what the reader does not see, so that
// neighbours in src are neighbours to the reader. ok says that src is at an entry.
func (h *history) passUnseen(ok, backward bool) bool {
	for ok && !isSeen(h.at, h.Iterator.Entry().Version) {
		if backward {
			ok = h.Iterator.Prev()
		} else {
			ok = h.Iterator.Next()
		}
	}
	return ok
}

// noteMove notes what a move of src came to, which is the position.
func (h *history) noteMove(ok bool) bool {
	h.valid, h.marked = ok, false
	return ok
}

func (h *history) Next() bool {
	switch {
	case h.marked && !h.behind:
		return h.noteMove(true)
	case h.marked && h.valid:
		return h.noteMove(h.passUnseen(h.Iterator.Next(), false))
	case h.marked:
		return h.noteMove(h.passUnseen(h.Iterator.First(), false))
	case !h.valid:
		return false
	}
	// Whether a mark stands behind this entry depends on the next one: is it of the same key?
	version := h.leaveEntry()
	if !h.passUnseen(h.Iterator.Next(), false) {
		return h.noteMove(false)
	}
	return h.markBefore(true, h.newerVersion(version, h.Iterator.Entry().Key))
}

func (h *history) Prev() bool {
	switch {
	case h.marked && h.behind:
		return h.noteMove(h.valid)
	case h.marked:
		return h.noteMove(h.passUnseen(h.Iterator.Prev(), true))
	case !h.valid:
		return false
	}
	version, newer := h.leaveEntry(), entry.Version(noNewer)
	if h.noteMove(h.passUnseen(h.Iterator.Prev(), true)) {
		e := h.Iterator.Entry()
		newer = h.newerVersion(e.Version, e.Key)
	} else if h.Iterator.Err() != nil {
		return false
	}
	// src has passed the place of the mark, which lies between both entries.
	h.behind = true
	return h.putMark(version, newer) || h.valid
}

// leaveEntry notes the key of the entry that src is at, and returns its version.
func (h *history) leaveEntry() entry.Version {
	e := h.Iterator.Entry()
	h.key = append(h.key[:0], e.Key...)
	return e.Version
}

// newerVersion is the version of a neighbour of the entry of h.key, if it is of the same
// key.
func (h *history) newerVersion(version entry.Version, key []byte) entry.Version {
	if !bytes.Equal(key, h.key) {
		return noNewer
	}
	return version
}

// markBefore puts a mark before the entry that src has come to, going forward, if one
// belongs there.
func (h *history) markBefore(ok bool, newer entry.Version) bool {
	if h.noteMove(ok) {
		h.behind = false
		h.putMark(h.leaveEntry(), newer)
	}
	return h.valid
}

// putMark makes the mark that belongs between an entry of h.key of this version and
// the next newer one, and reports whether there is one.
func (h *history) putMark(version, newer entry.Version) bool {
	// An own write is newer than every range delete of the store.
	if version == rangedel.Pending {
		return false
	}
	// A range delete newer than the neighbour hides that one too: its mark stands before
	// it, and here the next older range delete counts.
	v := h.cover.Newest(h.key)
	if v >= newer {
		v = h.cover.Before(h.key, min(newer, rangedel.Pending))
	}
	if h.cover.Err() != nil {
		return h.noteMove(false)
	}
	if v <= version {
		return false
	}
	h.mark = entry.Entry{Key: append(h.mark.Key[:0], h.key...), Version: v, Kind: entry.Delete}
	h.marked = true
	return true
}
