package brock

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/tree"
)

// Batch is a group of writes that are made together or not at all, and that read
// nothing, so that they never conflict. A later write to a key wins. It
// holds the records as the journal will, the more of them in files the larger it
// is. It needs no end: a Batch that is not committed is just forgotten.
//
// It addresses one keyspace, the default one at first; In is the same batch
// addressing another.
type Batch struct {
	*batch
	space *space
}

// batch is what all Batches of a batch share.
type batch struct {
	db      *DB
	arena   []byte
	key     []byte
	records int
	written conflict.Keyspaces // keyspaces that are written to
	ranges  *tombstone.Set     // range deletes; the n-th record has version n here
	spill   *tree.Spill        // the records before those in arena; nil: there are none
	failed  error              // of the spill
	spent   bool               // by Commit
	request commit.Request
}

var errBatchSpent = fmt.Errorf("brock: batch was committed, and not reset: %w", ErrInvalid)

// NewBatch returns an empty batch.
func (db *DB) NewBatch() *Batch { return &Batch{&batch{db: db}, db.main} }

// In is the same batch, addressing the keyspace ks; nil is the default one. Of
// another store's it is an error of the calls that follow, of one that was dropped
// an error of them or of Commit.
func (b *Batch) In(ks *Keyspace) *Batch {
	switch {
	case b.batch == nil:
		return b
	case ks == nil:
		return &Batch{b.batch, b.db.main}
	case ks.db != b.db:
		return &Batch{b.batch, refusing(errKeyspaceForeign)}
	}
	return &Batch{b.batch, ks.space}
}

// Set adds a pair. Key and value are copied. What refuses leaves the batch as it was.
func (b *Batch) Set(key, value []byte) error {
	return b.write(&write{key: key, value: value, kind: entry.Set})
}

// SetEntry adds a pair with its attributes. Key and value are copied.
func (b *Batch) SetEntry(e *Entry) error {
	if e == nil {
		return errNilEntry
	}
	w := e.write()
	return b.write(&w)
}

// Delete adds the delete of key.
func (b *Batch) Delete(key []byte) error { return b.write(&write{key: key, kind: entry.Delete}) }

// usable returns nil while the batch can be used.
func (b *Batch) usable() error {
	if b.batch == nil {
		return ErrClosed
	}
	if err := b.db.writable(); err != nil {
		return err
	}
	if b.spent {
		return errBatchSpent
	}
	return nil
}

func (b *Batch) write(w *write) error {
	if err := b.add(w); err != nil {
		return err
	}
	return b.spillIfLarge()
}

// add is write without a bound.
func (b *Batch) add(w *write) error {
	if err := b.takes(); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	b.arena, b.key = b.space.encoder.Load().append(b.arena, w, b.db.now, b.key)
	b.added()
	return nil
}

// takes returns nil while the batch takes writes to its keyspace.
func (b *Batch) takes() error {
	if err := b.usable(); err != nil {
		return err
	}
	if b.space.refused != nil {
		return b.space.refused
	}
	if err := b.space.usable(); err != nil {
		return err
	}
	return b.failed
}

// added counts a record that was added to the arena.
func (b *Batch) added() {
	b.records++
	b.space.note(&b.written)
}

// spillIfLarge writes the arena to files once it has become too large.
func (b *Batch) spillIfLarge() error {
	if int64(len(b.arena)) > b.db.txnMemory(0) {
		return b.spillArena()
	}
	return nil
}

// Len is the number of writes.
func (b *Batch) Len() int {
	if b.batch == nil {
		return 0
	}
	return b.records
}

// Size is what the writes take in the journal, in bytes.
func (b *Batch) Size() int64 {
	if b.batch == nil {
		return 0
	}
	n := int64(len(b.arena))
	if b.spill != nil {
		n += b.spill.Bytes()
	}
	return n
}

// Commit makes the writes, with the store's durability. If ctx ends before that
// has begun, nothing is written. Whatever Commit returns, the batch must be
// Reset before it is used again.
func (b *Batch) Commit(ctx context.Context) error {
	if err := b.usable(); err != nil {
		return err
	}
	b.spent = true
	if b.records == 0 {
		return nil
	}
	return b.commit(ctx, b.db.synced(DefaultDurability))
}

func (b *batch) commit(ctx context.Context, synced bool) error {
	if b.spill != nil {
		return b.commitSpilled(ctx)
	}
	payload, records := b.arena, b.records
	if b.ranges != nil {
		payload, records = surviving(b.arena, b.ranges, nil)
	}
	b.request = commit.Request{
		Payload: payload,
		Records: records,
		Ranges:  b.ranges.Len(),
		Check:   b.check(),
		Synced:  synced,
	}
	_, err := b.db.commit(ctx, &b.request)
	return err
}

// check is what must hold for the batch to commit.
func (b *batch) check() conflict.Check {
	return conflict.Check{Isolation: conflict.LastWriterWins, Written: b.written}
}

// Reset empties the batch, and keeps its memory for what comes.
func (b *Batch) Reset() {
	if b.batch == nil {
		return
	}
	poison(b.arena)
	b.written.Reset()
	b.arena, b.records, b.ranges, b.spent = b.arena[:0], 0, nil, false
	b.discardSpill()
}

// BatchSet writes entries as one batch.
func (db *DB) BatchSet(entries []*Entry) error {
	b := db.NewBatch()
	for _, e := range entries {
		if err := b.SetEntry(e); err != nil {
			return err
		}
	}
	return b.Commit(context.Background())
}
