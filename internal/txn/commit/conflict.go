package commit

import (
	"bytes"
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/view"
)

// Refusal is the error of a transaction that can't be committed: others have changed, or are about
// to change, what it has read or what it writes. That is a key, a range or a whole keyspace. It is
// an errs.ErrConflict. Its bytes are copies.
type Refusal struct {
	Lo, Hi  []byte    // stored keys: Lo or, with Range, [Lo, Hi); a nil Hi is no bound
	Range   bool      // something in the range has changed; nobody has looked which key
	Dropped *Keyspace // if set, the cause is that this keyspace was dropped; the rest is unset
	Yields  bool      // nothing has changed, but another transaction has its turn there
}

// RefuseKey returns the refusal because of a key, which is copied.
func RefuseKey(key []byte) *Refusal { return &Refusal{Lo: bytes.Clone(key)} }

// RefuseRange returns the refusal because of a range, whose bounds are copied.
func RefuseRange(lo, hi []byte) *Refusal {
	return &Refusal{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Range: true}
}

// Error says that it is a conflict, but holds no key.
func (r *Refusal) Error() string { return errs.ErrConflict.Error() }

// Is reports whether target is errs.ErrConflict.
func (r *Refusal) Is(target error) bool { return target == errs.ErrConflict }

// Changes tells the newest versions of committed entries.
type Changes interface {
	// Newest returns the greatest version of key, and whether there is one, if it
	// is greater than since; else it need not look for it.
	Newest(key []byte, hash uint64, since entry.Version) (entry.Version, bool, error)
	// ChangedSince reports whether any key in [lo, hi) has a version greater
	// than since; a nil hi is no bound.
	ChangedSince(lo, hi []byte, since entry.Version) (bool, error)
}

// KeySet is keys and ranges that must not have changed: those that a transaction has read, or those
// that it writes.
type KeySet interface {
	// Len is the number of keys and ranges, by which the cost of a Check grows.
	Len() int
	// Refuse returns a Refusal if key is in the set.
	Refuse(key []byte) error
	// Check returns a Refusal if anything in the set has changed since that version.
	Check(c Changes, since entry.Version) error
}

// CheckViews returns a Refusal if anything in the set has changed after since, and the version up to
// which it has looked.
func CheckViews(views *view.Set, set KeySet, since entry.Version) (upTo entry.Version, err error) {
	p, err := views.Acquire(0)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	// Usually fewer keys were written since than are in the set: look up each written key there.
	// Otherwise, or if a range was deleted or much of runs has to be read, look up each key of the
	// set.
	all, err := p.EachArrival(since, set.Len(), refuseWritten(set, set.Len()))
	if err == errStale || err == nil && !all {
		p.SortSince(since)
		err = set.Check(p, since)
	}
	return p.Version(), err
}

var errStale = errors.New("too much was written to look up each key")

// refuseWritten returns a function that refuses a written key if it is in the set. The function returns
// errStale for a range, and after so many keys.
func refuseWritten(set KeySet, most int) func(lo, hi []byte) error {
	n := 0
	return func(lo, hi []byte) error {
		// To look up a range takes a walk of the whole set.
		if n++; n > most || hi != nil {
			return errStale
		}
		return set.Refuse(lo)
	}
}
