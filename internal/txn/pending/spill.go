package pending

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/commit"
)

// Spill is files with a transaction's writes, which its commit gives to the store. The methods
// that read may be called by any number of goroutines.
type Spill interface {
	commit.Alone
	// Add adds encoded records, of which the newest has the number last, and range deletes.
	Add(ctx context.Context, records []byte, last int, ranges *rangedel.Set) error
	// AddLarge adds one entry, whose value is not copied to memory.
	AddLarge(ctx context.Context, e *entry.Entry) error
	// Get reads the newest write of a stored key.
	Get(key []byte, hash uint64, dst *entry.Entry) (found bool, err error)
	// Iterators walk the writes; v is the version that they tell.
	Iterators(ranges *rangedel.Set, v entry.Version) []iterator.Iterator
	// Ranges are the range deletes.
	Ranges() []rangedel.Source
	// Value reads the separated value of an entry that Get or an iterator has returned. own
	// reports whether it is in dst or in new memory, and not in a mapped file.
	Value(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error)
	// Entries and Bytes count what was added.
	Entries() int64
	Bytes() int64
	// Discard removes the files, unless they were committed.
	Discard()
}

// Spill writes what is in memory to files, which newSpill makes when it is called first. No layout
// has these files before the commit. After an error, which Err returns from then on, discard the
// writes.
func (w *Writes) Spill(ctx context.Context, newSpill func() Spill) error {
	if w.files == nil {
		w.files = newSpill()
	}
	if w.failed = w.files.Add(ctx, w.memory.arena, w.Len(), w.ranges); w.failed != nil {
		return w.failed
	}
	// If entries were handed out, their memory stays with their users, and later writes get
	// new memory.
	w.before, w.ranges = w.Len(), nil
	if w.memory.lent {
		w.memory = memory{}
	} else {
		w.memory.clearRecords()
	}
	return nil
}

// Large reports whether e's value must go to a file at once: it is so large that it is
// separated in every keyspace, and with it the writes in memory would exceed limit bytes.
func (w *Writes) Large(e *entry.Entry, limit int64) bool {
	return len(e.Value) >= maxInline && w.InMemory()+int64(len(e.Value)) > limit
}

// AddLarge is Add for a Large entry. It first spills what is in memory. Then it writes the
// value from the caller's memory to a file, uncompressed, without a copy of it in memory.
// Errors are those of Spill.
func (w *Writes) AddLarge(ctx context.Context, newSpill func() Spill, c *Encoder, e *entry.Entry) error {
	if err := w.Spill(ctx, newSpill); err != nil {
		return err
	}
	w.key = AppendKey(w.key[:0], c.Prefix, e.Key)
	e.Key = w.key
	w.before++
	w.failed = w.files.AddLarge(ctx, e)
	return w.failed
}

// Files returns the spilled writes; nil if there are none. Discard them after the last read.
func (w *Writes) Files() Spill { return w.files }

// SpillRest spills what is left in memory, so that Files has all writes.
func (w *Writes) SpillRest(ctx context.Context, newSpill func() Spill) error {
	if w.failed != nil || w.memory.count == 0 {
		return w.failed
	}
	return w.Spill(ctx, newSpill)
}
