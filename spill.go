package brock

import (
	"context"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tree"
)

// A transaction or batch that outgrows its memory spills: its records go, sorted,
// to files that nothing names before the commit.

// maxTxnMemory bounds what a transaction holds in memory: without a spill, all of
// it goes into one memtable.
const maxTxnMemory = 1 << 30

// minReadSet is how much of what a transaction reads is always noted exactly, in bytes.
const minReadSet = 64 << 10

// txnMemory is the memory that a transaction's writes may take, if it asks for
// so much; 0 = it doesn't say.
func (db *DB) txnMemory(asked int64) int64 {
	if asked > 0 {
		return asked
	}
	limit := db.opts.MemoryLimit
	if limit == 0 {
		limit = DefaultMemoryLimit
	}
	return min(limit/8, maxTxnMemory)
}

// never is the context of transactions that have none.
func never(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// spillWrites writes what is pending in memory to files. If that fails, the
// transaction can only be discarded.
func (t *transaction) spillWrites() error {
	w := t.writes
	if w.spill == nil {
		w.spill = t.db.tree.NewSpill()
		if t.rare == nil {
			t.rare = new(rare)
		}
		t.rare.spill = w.spill
	}
	if w.failed = w.spill.Add(never(t.ctx()), w.arena, w.last(), w.ranges); w.failed != nil {
		return w.failed
	}
	w.spills++
	before, ranges := w.last(), w.ranges
	if w.lent {
		w.pending = new(pending)
	} else {
		w.pending.reset()
	}
	w.before, w.ranges = before, ranges
	return nil
}

// commitSpilled is Commit once there are writes in files. It is durable when it
// returns, whatever Durability says.
func (t *transaction) commitSpilled() error {
	w := t.writes
	err := w.failed
	if err == nil && len(w.recs) > 0 {
		err = t.spillWrites()
	}
	if err == nil {
		t.committed, err = t.db.commitSpilled(t.ctx(), w.spill, t.check())
	}
	if err != nil {
		t.end(txnDone)
		return err
	}
	t.end(txnCommitted)
	return nil
}

// commitSpilled makes a spill's writes part of the store, if c holds.
func (db *DB) commitSpilled(ctx context.Context, s *tree.Spill, c conflict.Check) (entry.Version, error) {
	if err := db.writable(); err != nil {
		return 0, err
	}
	begin := db.monotonic()
	v, err := db.commits.CommitAlone(never(ctx), s, c)
	db.counters.addCommit(db.monotonic()-begin, err, s.Entries(), s.Bytes())
	return v, err
}

// spillArena writes the records of a batch to files.
func (b *batch) spillArena() error {
	if b.spill == nil {
		b.spill = b.db.tree.NewSpill()
	}
	if b.failed = b.spill.Add(context.Background(), b.arena, b.records, b.ranges); b.failed != nil {
		b.spill.Discard() // a batch that fails may just be forgotten
		return b.failed
	}
	b.arena = b.arena[:0]
	return nil
}

func (b *batch) commitSpilled(ctx context.Context) error {
	defer b.discardSpill()
	if b.failed == nil && len(b.arena) > 0 {
		b.failed = b.spillArena()
	}
	if b.failed != nil {
		return b.failed
	}
	_, err := b.db.commitSpilled(ctx, b.spill, b.check())
	return err
}

func (b *batch) discardSpill() {
	if b.spill != nil {
		b.spill.Discard()
	}
	b.spill, b.failed = nil, nil
}
