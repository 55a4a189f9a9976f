package tree

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/view"
)

// Acquire pins the current View for reads at the version at; 0 means the newest
// published one. It returns ErrVersionGone for a version whose history may
// already have been dropped in every keyspace (Pin.Floor tells of each), ErrInvalid
// for one not yet published, and ErrClosed after Close.
func (t *Tree) Acquire(at entry.Version) (*view.Pin, error) { return t.views.Acquire(at) }

// Newest returns the newest version of key, published or not, as view.Pin.Newest
// does. Only the commit leader may call it.
func (t *Tree) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	t.leader.Enter()
	defer t.leader.Leave()
	return t.leader.Newest(key, h, since)
}

// ChangedSince reports whether [lo, hi) has an entry newer than since, as
// view.Pin.ChangedSince does. Only the commit leader may call it.
func (t *Tree) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	t.leader.Enter()
	defer t.leader.Leave()
	return t.leader.ChangedSince(lo, hi, since)
}

// Size estimates what [lo, hi) holds now, as view.Pin.Size does.
func (t *Tree) Size(lo, hi []byte) (entries, bytes, separated uint64) {
	p, err := t.Acquire(0)
	if err != nil {
		return 0, 0, 0
	}
	defer p.Release()
	return p.Size(lo, hi)
}

// Split returns at most n-1 stored keys, in order, that cut [lo, hi) into parts
// of about the same size; a nil bound is open.
func (t *Tree) Split(lo, hi []byte, n int) [][]byte {
	p, err := t.Acquire(0)
	if err != nil {
		return nil
	}
	defer p.Release()
	return p.Split(lo, hi, n)
}
