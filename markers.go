package brock

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/tombstone"
)

// markers shows what range deletes did in a walk of all versions: before a
// version that one covers stands a delete of its key, as if it had been deleted by
// itself. Of several range deletes between two versions the newest is shown; a
// key that has no version left shows none.
//
// A mark stands between the version that it hides and the newer one before it,
// if there is one. Going forward, src is at the former; going back, at the latter.
type markers struct {
	iterator.Iterator // src
	at                entry.Version
	cover             *tombstone.Cover

	valid  bool // src is at an entry
	marked bool // the position is at mark, not at src
	behind bool // src is before the mark, or at no entry
	mark   entry.Entry
	key    []byte // scratch: of the entry that was left
}

var _ iterator.Iterator = (*markers)(nil)

// noNewer is above all versions: there is no newer entry of the key.
const noNewer = tombstone.Pending + 1

func (m *markers) First() bool { return m.arrive(m.forward(m.Iterator.First()), noNewer) }
func (m *markers) SeekGE(key []byte) bool {
	return m.arrive(m.forward(m.Iterator.SeekGE(key)), noNewer)
}
func (m *markers) Last() bool             { return m.moved(m.back(m.Iterator.Last())) }
func (m *markers) SeekLT(key []byte) bool { return m.moved(m.back(m.Iterator.SeekLT(key))) }

func (m *markers) SkipGE([]byte, entry.Version) bool { return m.Next() }
func (m *markers) SkipLT([]byte, entry.Version) bool { return m.Prev() }

func (m *markers) Entry() *entry.Entry {
	if m.marked {
		return &m.mark
	}
	return m.Iterator.Entry()
}

// forward and back go on over what the reader does not see, so that neighbours in
// src are neighbours to the reader. ok says that src is at an entry.
func (m *markers) forward(ok bool) bool {
	for ok && !sees(m.at, m.Iterator.Entry().Version) {
		ok = m.Iterator.Next()
	}
	return ok
}

func (m *markers) back(ok bool) bool {
	for ok && !sees(m.at, m.Iterator.Entry().Version) {
		ok = m.Iterator.Prev()
	}
	return ok
}

// moved notes what a move of src came to, which is the position.
func (m *markers) moved(ok bool) bool {
	m.valid, m.marked = ok, false
	return ok
}

func (m *markers) Next() bool {
	switch {
	case m.marked && !m.behind:
		return m.moved(true)
	case m.marked && m.valid:
		return m.moved(m.forward(m.Iterator.Next()))
	case m.marked:
		return m.moved(m.forward(m.Iterator.First()))
	case !m.valid:
		return false
	}
	version := m.leave()
	if !m.forward(m.Iterator.Next()) {
		return m.moved(false)
	}
	return m.arrive(true, m.newer(version, m.Iterator.Entry().Key))
}

func (m *markers) Prev() bool {
	switch {
	case m.marked && m.behind:
		return m.moved(m.valid)
	case m.marked:
		return m.moved(m.back(m.Iterator.Prev()))
	case !m.valid:
		return false
	}
	version, newer := m.leave(), entry.Version(noNewer)
	if m.moved(m.back(m.Iterator.Prev())) {
		e := m.Iterator.Entry()
		newer = m.newer(e.Version, e.Key)
	} else if m.Iterator.Err() != nil {
		return false
	}
	m.behind = true
	return m.put(version, newer) || m.valid
}

// leave notes the key of the entry that src is at, and returns its version.
func (m *markers) leave() entry.Version {
	e := m.Iterator.Entry()
	m.key = append(m.key[:0], e.Key...)
	return e.Version
}

// newer is the version of a neighbour of the entry of m.key, if it is of the same
// key.
func (m *markers) newer(version entry.Version, key []byte) entry.Version {
	if !bytes.Equal(key, m.key) {
		return noNewer
	}
	return version
}

// arrive puts a mark before the entry that src has come to, going forward, if one
// belongs there.
func (m *markers) arrive(ok bool, newer entry.Version) bool {
	if m.moved(ok) {
		m.behind = false
		m.put(m.leave(), newer)
	}
	return ok
}

// put makes the mark that belongs between an entry of m.key of this version and
// the next newer one, and reports whether there is one.
func (m *markers) put(version, newer entry.Version) bool {
	if version == tombstone.Pending {
		return false
	}
	v := m.cover.Newest(m.key)
	if v >= newer {
		v = m.cover.Before(m.key, min(newer, tombstone.Pending))
	}
	if v <= version {
		return false
	}
	m.mark = entry.Entry{Key: append(m.mark.Key[:0], m.key...), Version: v, Kind: entry.Delete}
	m.marked = true
	return true
}
