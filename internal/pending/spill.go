package pending

import (
	"context"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tree"
)

// Spill writes what is in memory to files of t, which nothing names before the
// commit. After an error, which Err returns from then on, the writes can only be
// discarded.
func (w *Writes) Spill(ctx context.Context, t *tree.Tree) error {
	if w.files == nil {
		w.files = t.NewSpill()
	}
	if w.failed = w.files.Add(ctx, w.memory.arena, w.Len(), w.ranges); w.failed != nil {
		return w.failed
	}
	// Readers of what was in memory keep it; they see nothing that comes later.
	w.before, w.ranges = w.Len(), nil
	if w.memory.lent {
		w.memory = memory{}
	} else {
		w.memory.reset()
	}
	return nil
}

// Large reports whether e has a value that is separated whatever its keyspace says, and
// has no room beside what is in memory, of which there may be limit bytes.
func (w *Writes) Large(e *entry.Entry, limit int64) bool {
	return len(e.Value) >= maxInline && w.InMemory()+int64(len(e.Value)) > limit
}

// AddLarge is Add for a Large entry: its value is written from the caller's memory to a
// file of t, as it is, and no copy of it is made. What is in memory goes to files
// before it. Errors are those of Spill.
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

// Files are the writes that are in files; nil if none are. They are discarded
// after the last read of them.
func (w *Writes) Files() *tree.Spill { return w.files }

// SpillRest writes what is left in memory to files, so that Files are all writes.
func (w *Writes) SpillRest(ctx context.Context, t *tree.Tree) error {
	if w.failed != nil || w.memory.count == 0 {
		return w.failed
	}
	return w.Spill(ctx, t)
}
