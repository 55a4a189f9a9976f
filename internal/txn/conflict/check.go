package conflict

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// Isolation says which conflicts a transaction is checked for when it commits.
type Isolation uint8

// The isolation levels, strictest first.
const (
	Serializable      Isolation = iota // nothing that it read has changed
	SnapshotIsolation                  // no key that it writes has changed
	LastWriterWins                     // nothing is checked
)

// Check is what must hold for a transaction to commit. The commit leader checks it against
// the View and against earlier members of its group. The zero value always holds.
type Check struct {
	Isolation Isolation
	Since     entry.Version // newest version that the transaction could see
	Reads     *ReadSet      // what Serializable checks; nil: nothing was read
	Written   Keyspaces     // keyspaces that the transaction writes to
	Addressed Keyspaces     // keyspaces that a Serializable transaction may have read
}

// AsksNothing reports whether the check holds whatever keys have changed. Dropped is asked anyway.
func (c *Check) AsksNothing() bool {
	switch c.Isolation {
	case Serializable:
		return c.Reads == nil || c.Reads.Empty()
	case SnapshotIsolation:
		return false
	}
	return true
}

// AsksRanges reports whether the check of a transaction, which deletes this many
// ranges, asks for changes in ranges.
func (c *Check) AsksRanges(deletes int) bool {
	if c.Isolation == SnapshotIsolation {
		return deletes > 0
	}
	return c.Isolation == Serializable && c.Reads != nil && len(c.Reads.ranges) > 0
}

// Dropped returns errs.ErrKeyspaceNotFound if a keyspace was dropped that the transaction
// writes to. It returns a Refusal if one was dropped that the transaction may have read:
// changes before the drop may be gone, so a conflict with them can't be found any more. The
// answer is only final for a commit leader; for others a drop may follow.
func (c *Check) Dropped() error {
	if c.Written.dropped() != nil {
		return errs.ErrKeyspaceNotFound
	}
	if k := c.Addressed.dropped(); k != nil {
		return &Refusal{Dropped: k}
	}
	return nil
}

// Keyspace is a keyspace that can be dropped.
type Keyspace struct {
	ID      entry.KeyspaceID
	Name    string
	Dropped atomic.Bool // set when its drop begins; cleared only if that fails and the store goes on
}

// Keyspaces is the set of droppable keyspaces that a transaction uses.
type Keyspaces struct {
	list []*Keyspace
	seen map[*Keyspace]bool // the set of list once it is longer than searched; else nil
}

// maxSearched is how many keyspaces are searched one by one. Most transactions use fewer, and for them
// a map would cost more.
const maxSearched = 16

// Add adds a keyspace once.
func (k *Keyspaces) Add(ks *Keyspace) {
	n := len(k.list)
	switch {
	// Calls in a row mostly use one keyspace.
	case n > 0 && k.list[n-1] == ks, k.seen[ks]:
		return
	case n <= maxSearched && slices.Contains(k.list, ks):
		return
	case n == maxSearched:
		k.seen = make(map[*Keyspace]bool, 2*maxSearched)
		for _, ks := range k.list {
			k.seen[ks] = true
		}
	}
	if k.list = append(k.list, ks); k.seen != nil {
		k.seen[ks] = true
	}
}

// Len returns the number of keyspaces.
func (k *Keyspaces) Len() int { return len(k.list) }

// Reset empties k and keeps its memory, of which Memory tells.
func (k *Keyspaces) Reset() {
	clear(k.list)
	k.list, k.seen = k.list[:0], nil
}

// Memory is how many bytes of memory k takes, about.
func (k *Keyspaces) Memory() int { return 8*cap(k.list) + 16*len(k.seen) }

// dropped returns a keyspace that was dropped; nil if none was.
func (k *Keyspaces) dropped() *Keyspace {
	for _, ks := range k.list {
		if ks.Dropped.Load() {
			return ks
		}
	}
	return nil
}

// NameOf is the name of the keyspace of a stored key that the transaction has read or
// written; the default one has none.
func (c *Check) NameOf(stored []byte) string {
	id, _ := entry.KeyspaceOf(stored)
	for _, set := range []*Keyspaces{&c.Addressed, &c.Written} {
		for _, ks := range set.list {
			// Stored keys begin with the number of their keyspace.
			if ks.ID == id {
				return ks.Name
			}
		}
	}
	return ""
}

// Arrivals is what was committed up to a moment.
type Arrivals interface {
	Changes
	// EachArrival calls fn with each key (hi is nil) and each range delete newer than since, until fn
	// returns an error, which it returns. It returns false if it would have to read more than most
	// entries of files for that.
	EachArrival(since entry.Version, most int, fn func(lo, hi []byte) error) (all bool, err error)
	// SortSince makes ChangedSince(since) cheap.
	SortSince(since entry.Version)
}

var errTooMany = errors.New("too many keys were written meanwhile")

// CheckArrivals returns a Refusal if anything in the set has changed after since.
func CheckArrivals(set Set, a Arrivals, since entry.Version) error {
	// Usually fewer keys were written since than are in the set: look up each written key there.
	// Otherwise, or if a range was deleted or much of runs has to be read, look up each key of the
	// set.
	n := 0
	all, err := a.EachArrival(since, set.Len(), func(lo, hi []byte) error {
		if n++; n > set.Len() || hi != nil {
			return errTooMany
		}
		return set.Refuse(lo)
	})
	if err == errTooMany || err == nil && !all {
		a.SortSince(since)
		err = set.Check(a, since)
	}
	return err
}
