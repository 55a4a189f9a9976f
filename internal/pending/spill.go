package pending

import (
	"context"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tree"
)

// Spill writes what is in memory to files of t. No layout has these files before the
// commit. After an error, which Err returns from then on, discard the writes.
func (w *Writes) Spill(ctx context.Context, t *tree.Tree) error {
	if w.files == nil {
		w.files = t.NewSpill()
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
		w.memory.reset()
	}
	return nil
}

// Large reports whether e's value must go to a file at once: it is so large that it is
// separated in every keyspace, and with it the writes in memory would exceed limit bytes.
func (w *Writes) Large(e *entry.Entry, limit int64) bool {
	return len(e.Value) >= maxInline && w.InMemory()+int64(len(e.Value)) > limit
}

// AddLarge is Add for a Large entry. It first spills what is in memory. Then it writes the
// value from the caller's memory to a file of t, uncompressed, without a copy of it in memory.
// Errors are those of Spill.
func (w *Writes) AddLarge(ctx context.Context, t *tree.Tree, c *Encoder, e *entry.Entry) error {
	if err := w.Spill(ctx, t); err != nil {
		return err
	}
	w.key = AppendKey(w.key[:0], c.Prefix, e.Key)
	e.Key = w.key
	w.before++
	w.failed = w.files.AddLarge(ctx, e)
	return w.failed
}

// Files returns the spilled writes; nil if there are none. Discard them after the last read.
func (w *Writes) Files() *tree.Spill { return w.files }

// SpillRest spills what is left in memory, so that Files has all writes.
func (w *Writes) SpillRest(ctx context.Context, t *tree.Tree) error {
	if w.failed != nil || w.memory.count == 0 {
		return w.failed
	}
	return w.Spill(ctx, t)
}
