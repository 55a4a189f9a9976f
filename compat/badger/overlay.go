package badger

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock"
)

// An iterator of Badger shows the writes of its transaction as they were when it was made. Brock's shows
// those up to its last Seek. So an update notes, while an iterator is open, for each key that it writes
// what it has written for it before. A Seek after that puts an overlay over Brock's iterator: it hides the
// later writes of these keys and shows what was there.

// undo is what iterators that are open must not see.
type undo struct {
	log  []undoRecord
	last map[string]int // by key: its last record
	from int            // of the youngest iterator: keys with a later record need none
}

// undoRecord is what a key was before a write.
type undoRecord struct {
	key string
	own *Entry // the earlier write of the transaction; nil: there was none, the committed version counts
}

// noteUndo notes what key is, before it is written.
func (t *Txn) noteUndo(key []byte) error {
	u := t.undo
	if u == nil {
		u = &undo{last: make(map[string]int)}
		t.undo = u
	}
	if int64(len(u.log)) > t.db.opt.maxBatchCount {
		return nil // more than a transaction of Badger can have: a later Seek is an error
	}
	if i, ok := u.last[string(key)]; ok && i >= u.from {
		return nil
	}
	own, err := t.findOwn(key)
	if err != nil {
		return err
	}
	u.last[string(key)] = len(u.log)
	u.log = append(u.log, undoRecord{string(key), own})
	return nil
}

// findOwn returns the transaction's own write of key; nil if there is none.
func (t *Txn) findOwn(key []byte) (*Entry, error) {
	if t.writes == 0 {
		return nil, nil
	}
	// Mostly a loop writes the key that its iterator is at.
	if it := t.open; it.src == nil && it.at != nil && it.item.source.Version() != 0 && bytes.Equal(it.item.source.Key(), key) {
		return nil, nil
	}
	for item, err := range t.versionsOf(key, true) {
		if err != nil || item.Version() != 0 {
			return nil, err
		}
		return copyEntry(item)
	}
	return nil, nil
}

// hadOwn reports whether the transaction had written key when the undo log had from records.
func (t *Txn) hadOwn(key []byte, from int) (bool, error) {
	if u := t.undo; u != nil {
		if i, ok := u.last[string(key)]; ok && i >= from {
			for _, r := range u.log[from:] {
				if r.key == string(key) {
					return r.own != nil, nil
				}
			}
		}
	}
	for item, err := range t.versionsOf(key, true) {
		return err == nil && item.Version() == 0, err
	}
	return false, nil
}

// versionsOf yields the versions of key, the transaction's own write first. It does not count as a read.
func (t *Txn) versionsOf(key []byte, keysOnly bool) func(yield func(*brock.Item, error) bool) {
	return t.brock.Items(brock.IteratorOptions{
		Lower: key, Upper: append(bytes.Clone(key), 0),
		AllVersions: true, KeysOnly: keysOnly, Untracked: true, Prefetch: -1,
	})
}

// copyEntry copies an item of Brock.
func copyEntry(item *brock.Item) (*Entry, error) {
	e := &Entry{Key: item.KeyCopy(nil), UserMeta: item.Meta()}
	if item.OnlyLatest() {
		e.flags |= flagDiscard
	}
	if at := item.ExpiresAt(); !at.IsZero() {
		e.ExpiresAt = uint64(at.Unix())
	}
	if item.Deleted() {
		e.flags |= flagDeleted
		return e, nil
	}
	var err error
	e.Value, err = item.ValueCopy(nil)
	return e, err
}

// hideLaterWrites puts an overlay over the iterator if the transaction has written since it was made.
func (it *Iterator) hideLaterWrites() error {
	t := it.txn
	if t.undo == nil || len(t.undo.log) == it.undoFrom {
		return nil
	}
	if int64(len(t.undo.log)) > t.db.opt.maxBatchCount {
		return errTooManyWrites
	}
	var shown []shownEntry
	seen := make(map[string]bool)
	for _, r := range t.undo.log[it.undoFrom:] {
		if seen[r.key] { // the first record is of what the iterator saw
			continue
		}
		seen[r.key] = true
		s, err := t.entryBefore(&r)
		if err != nil {
			return readError(err)
		}
		shown = append(shown, s)
	}
	it.src = newMerged(it, &brockSource{it: it}, shown)
	return nil
}

// entryBefore returns what a key was before a write.
func (t *Txn) entryBefore(r *undoRecord) (shownEntry, error) {
	s := shownEntry{key: []byte(r.key), entry: r.own, version: t.readTs, own: r.own != nil}
	if s.own {
		return s, nil
	}
	for item, err := range t.versionsOf(s.key, false) {
		if err != nil {
			return s, err
		}
		if v := item.Version(); v != 0 {
			s.version = v
			s.entry, err = copyEntry(item)
			return s, err
		}
	}
	return s, nil
}

// shownEntry is what an overlay has for a key.
type shownEntry struct {
	key     []byte
	entry   *Entry // nil: there is none
	version uint64
	own     bool // it is a write of the transaction
}

// merged yields the items of a source with some keys as an overlay has them. Without AllVersions these
// keys are the overlay's. With it, the overlay's own writes are added to the versions of the source, and
// hide what the source has at the transaction's own version, as in Badger.
type merged struct {
	under   source
	shown   []shownEntry           // in the order of the walk
	byKey   map[string]*shownEntry // the same
	next    int                    // the next one of shown
	item    Item                   // of shown
	at      *Item                  // the current item: item or that of under
	readTs  uint64
	since   uint64 // committed versions up to it are not shown
	all     bool
	reverse bool
}

func newMerged(it *Iterator, under source, shown []shownEntry) *merged {
	m := &merged{under: under, readTs: it.txn.readTs, since: it.opt.SinceTs, all: it.opt.AllVersions,
		reverse: it.opt.Reverse}
	m.item.txn = it.txn
	// What is out of the bounds of the walk is not shown.
	m.shown = slices.DeleteFunc(shown, func(s shownEntry) bool {
		switch {
		case it.opt.prefixIsKey:
			return !bytes.Equal(s.key, it.opt.Prefix)
		case it.opt.Reverse:
			return false
		}
		return !bytes.HasPrefix(s.key, it.opt.Prefix)
	})
	slices.SortFunc(m.shown, func(a, b shownEntry) int { return m.compare(a.key, b.key) })
	m.byKey = make(map[string]*shownEntry, len(m.shown))
	for i := range m.shown {
		m.byKey[string(m.shown[i].key)] = &m.shown[i]
	}
	return m
}

// compare compares keys in the order of the walk.
func (m *merged) compare(a, b []byte) int {
	if m.reverse {
		a, b = b, a
	}
	return bytes.Compare(a, b)
}

func (m *merged) seek(key []byte) {
	m.under.seek(key)
	m.next = 0
	if len(key) > 0 {
		m.next, _ = slices.BinarySearchFunc(m.shown, key, func(s shownEntry, key []byte) int { return m.compare(s.key, key) })
	}
	m.settle()
}

func (m *merged) advance() {
	if m.at == &m.item {
		m.next++
	} else {
		m.under.advance()
	}
	m.settle()
}

func (m *merged) current() *Item { return m.at }

func (m *merged) failure() error { return m.under.failure() }

// settle finds the item that comes next: of both sources that with the lesser key.
func (m *merged) settle() {
	below := m.under.current()
	for ; below != nil && m.hides(below); below = m.under.current() {
		m.under.advance()
	}
	for m.next < len(m.shown) && !m.shows(&m.shown[m.next]) {
		m.next++
	}
	m.at = below
	if m.next == len(m.shown) {
		return
	}
	s := &m.shown[m.next]
	if below != nil {
		// The same key only with AllVersions: the transaction's own write is the newest version.
		if c := m.compare(s.key, below.Key()); c > 0 || c == 0 && m.reverse {
			return
		}
	}
	m.item.setOwn(s.entry, s.version)
	m.at = &m.item
}

// hides reports whether the overlay hides an item of the source.
func (m *merged) hides(item *Item) bool {
	s := m.byKey[string(item.Key())]
	switch {
	case s == nil:
		return false
	case !m.all:
		return true
	}
	isOwn := !item.fixed && item.source.Version() == 0
	return isOwn || s.own && item.Version() == m.readTs
}

// shows reports whether an entry of the overlay is an item.
func (m *merged) shows(s *shownEntry) bool {
	if s.entry == nil || m.all {
		return s.own
	}
	if !s.own && s.version <= m.since {
		return false
	}
	return s.entry.flags&flagDeleted == 0 && !isExpired(s.entry.ExpiresAt)
}

// brockSource is the iterator of Brock as a source.
type brockSource struct{ it *Iterator }

func (b *brockSource) seek(key []byte) { b.it.under.Seek(key) }

func (b *brockSource) advance() { b.it.under.Next() }

func (b *brockSource) current() *Item {
	if !b.it.under.Valid() {
		return nil
	}
	return &b.it.item
}

func (b *brockSource) failure() error { return b.it.under.Err() }
