package model

import (
	"iter"
	"slices"
)

// Txn is a serializable transaction: it reads the store as it was at its begin,
// with its own writes on top, and may commit if nothing that it read has changed.
type Txn struct {
	store  *Store
	at     uint64
	writes []Write
	reads  []Range
}

// Begin starts a transaction on what is committed now.
func (s *Store) Begin() *Txn { return s.BeginAt(s.last) }

// BeginAt starts a transaction that reads version at.
func (s *Store) BeginAt(at uint64) *Txn { return &Txn{store: s, at: at} }

// ReadVersion returns the version that the transaction reads.
func (t *Txn) ReadVersion() uint64 { return t.at }

// Write adds a write.
func (t *Txn) Write(w Write) { t.writes = append(t.writes, w) }

// Undo forgets all but the first n writes.
func (t *Txn) Undo(n int) { t.writes = t.writes[:n] }

// Lock reads key, and writes it again as it is, unless the transaction has written it.
func (t *Txn) Lock(key string, now uint64) (w Write, wrote bool) {
	t.Read(Key(key))
	if _, own := t.own(key); own {
		return w, false
	}
	if e, found := t.store.Get(key, t.at, now); found {
		w = Write{Key: key, Value: e.Value, Expires: e.Expires, Meta: e.Meta, Latest: e.Latest}
	} else {
		w = Write{Key: key, Delete: true}
	}
	t.Write(w)
	return w, true
}

// Read notes that the transaction depends on the keys of r.
func (t *Txn) Read(r Range) {
	if !r.Empty() {
		t.reads = append(t.reads, r)
	}
}

// Get returns what the transaction finds under key at the time now. Unless the
// key is one of its own writes, that is a read of the store.
func (t *Txn) Get(key string, now uint64) (Entry, bool) {
	if e, own := t.own(key); own {
		return e, e.Visible(now)
	}
	t.Read(Key(key))
	return t.store.Get(key, t.at, now)
}

// own returns the transaction's own write of key. Its version is 0 until the commit.
func (t *Txn) own(key string) (Entry, bool) {
	for _, w := range slices.Backward(t.writes) {
		switch {
		case w.Range != nil && w.Range.Contains(key):
			return Entry{Key: key, Deleted: true, Ranged: true}, true
		case w.Range == nil && w.Key == key:
			return Entry{
				Key: key, Value: w.Value, Expires: w.Expires, Meta: w.Meta, Deleted: w.Delete, Latest: w.Latest,
			}, true
		}
	}
	return Entry{}, false
}

// Scan walks over the visible values that the transaction sees at the time now, with
// its own writes. A walk to the end reads the whole range. One that stops early or
// reaches its limit reads up to the last key that it got.
func (t *Txn) Scan(r Range, reverse bool, limit int, now uint64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		both := t.store.Clone()
		both.Forget(t.at)
		both.CommitAt(t.at+1, t.writes...)
		left := limit
		for e := range both.Scan(Scan{Range: r, Reverse: reverse}, t.at+1, now) {
			if e.Version > t.at {
				e.Version = 0
			}
			left--
			if !yield(e) || left == 0 {
				t.Read(upTo(r, e.Key, reverse))
				return
			}
		}
		t.Read(r)
	}
}

// upTo returns the part of r that a walk has covered when it stands at key.
func upTo(r Range, key string, reverse bool) Range {
	if reverse {
		return Range{Lower: key, Upper: r.Upper}
	}
	return Range{Lower: r.Lower, Upper: key + "\x00"}
}

// Conflict reports whether a commit now must be refused, because something that the
// transaction has read has changed since. A transaction without writes never
// conflicts.
func (t *Txn) Conflict() bool { return len(t.writes) > 0 && t.Stale() }

// Stale reports whether something that the transaction has read has changed since.
func (t *Txn) Stale() bool {
	return slices.ContainsFunc(t.reads, func(r Range) bool { return t.store.ChangedSince(r, t.at) })
}

// Commit applies the writes and returns their version: the read version if
// there are none. With a conflict it does nothing and returns false.
func (t *Txn) Commit() (uint64, bool) {
	switch {
	case t.Conflict():
		return 0, false
	case len(t.writes) == 0:
		return t.at, true
	}
	return t.store.Commit(t.writes...), true
}
