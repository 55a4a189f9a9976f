package pending

import (
	"context"

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
	w.before = w.Len()
	if w.memory.lent {
		w.memory = memory{}
	} else {
		w.memory.reset()
	}
	return nil
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
