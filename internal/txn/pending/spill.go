package pending

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/commit"
)

// Files are the files with a transaction's spilled writes. Its commit gives them to the store. They
// are used by one goroutine at a time; others may call Value meanwhile.
type Files interface {
	commit.Alone
	// Add adds encoded records, which follow so many others, and the range deletes among them.
	Add(ctx context.Context, records []byte, before int, ranges *rangedel.Set) error
	// AddLarge adds one entry, whose value is not copied to memory.
	AddLarge(ctx context.Context, e *entry.Entry) error
	// Get reads the newest write of a stored key.
	Get(key []byte, hash uint64, dst *entry.Entry) (found bool, err error)
	// Iterators walk the writes, without what ranges cover, which are newer.
	Iterators(ranges *rangedel.Set) []iterator.Iterator
	// Ranges are the range deletes.
	Ranges() []rangedel.Source
	// Value reads the separated value of an entry that Get or an iterator has returned. own
	// reports whether it is in dst or in new memory, and not in a mapped file.
	Value(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error)
	// Entries is how many writes were committed, and Bytes the length of the records added.
	Entries() int64
	Bytes() int64
	// Discard removes the files, unless they were committed.
	Discard()
}

// SpillMemory writes what is in memory to files, which newSpill makes at the first call. No layout
// has these files before the commit. After an error, which Err returns from then on, discard the
// writes. Writes with operations return an errs.ErrUnsupported.
func (w *Writes) SpillMemory(ctx context.Context, newSpill func() Files) error {
	if w.failed != nil {
		return w.failed
	}
	// They have no base before the commit, and files get no new records in it.
	if w.ops != nil {
		w.failed = commit.ErrOperations
		return w.failed
	}
	if w.files == nil {
		w.files = newSpill()
	}
	if w.failed = w.files.Add(ctx, w.memory.arena, w.spilled, w.ranges); w.failed != nil {
		return w.failed
	}
	// The records are in files now. If readers hold slices of the arena, it stays with them, and
	// later writes get new memory.
	w.spilled, w.ranges = w.Len(), nil
	if w.memory.aliased {
		w.memory = memory{}
	} else {
		w.memory.clearRecords()
	}
	return nil
}

// IsLarge reports whether e's value must go to a file at once: it is so large that it is
// separated in every keyspace, and with it the writes in memory would exceed limit bytes.
func (w *Writes) IsLarge(e *entry.Entry, limit int64) bool {
	return len(e.Value) >= maxInline && w.BytesInMemory()+int64(len(e.Value)) > limit
}

// AddLarge is Add for an entry that IsLarge. It first spills what is in memory. Then it writes the
// value from the caller's memory to a file, uncompressed, without a copy of it in memory.
// Errors are those of SpillMemory.
func (w *Writes) AddLarge(ctx context.Context, newSpill func() Files, c *Encoder, e *entry.Entry) error {
	// The order of writes must hold: what is in memory is older than e.
	if err := w.SpillMemory(ctx, newSpill); err != nil {
		return err
	}
	// The value is not encoded to the arena: it would exceed the limit, for which this is made.
	w.key = AppendKey(w.key[:0], c.Prefix, e.Key)
	e.Key = w.key
	w.spilled++
	w.failed = w.files.AddLarge(ctx, e)
	return w.failed
}

// Files returns the spilled writes; nil if there are none. Discard them after the last read.
func (w *Writes) Files() Files { return w.files }
