package brock

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/entry"
)

// Batch is a group of writes that are made together or not at all, and that read
// nothing, so that they never conflict. A later write to a key wins. It
// holds the records as the journal will, the more of them in files the larger it
// is. It needs no end: a Batch that is not committed is just forgotten.
type Batch struct {
	db      *DB
	arena   []byte
	key     []byte
	records int
	spill   spill // the records before those in arena; nil: there are none
	failed  error // of the spill
	spent   bool  // by Commit
	request commit.Request
}

var errBatchSpent = fmt.Errorf("brock: batch was committed, and not reset: %w", ErrInvalid)

// NewBatch returns an empty batch.
func (db *DB) NewBatch() *Batch { return &Batch{db: db} }

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

func (b *Batch) write(w *write) error {
	if err := b.add(w); err != nil {
		return err
	}
	if int64(len(b.arena)) > b.db.txnMemory(0) {
		return b.spillArena()
	}
	return nil
}

// add is write without a bound.
func (b *Batch) add(w *write) error {
	if b.db == nil {
		return ErrClosed
	}
	if err := b.db.writable(); err != nil {
		return err
	}
	if b.spent {
		return errBatchSpent
	}
	if err := w.check(); err != nil {
		return err
	}
	if b.failed != nil {
		return b.failed
	}
	b.arena, b.key = b.db.encoder.append(b.arena, w, b.db.encoder.now, b.key)
	b.records++
	return nil
}

// Len is the number of writes.
func (b *Batch) Len() int { return b.records }

// Size is what the writes take in the journal, in bytes.
func (b *Batch) Size() int64 {
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
	if b.db == nil {
		return ErrClosed
	}
	if err := b.db.writable(); err != nil {
		return err
	}
	if b.spent {
		return errBatchSpent
	}
	b.spent = true
	if b.records == 0 {
		return nil
	}
	return b.commit(ctx, b.db.synced(DefaultDurability))
}

func (b *Batch) commit(ctx context.Context, synced bool) error {
	if b.spill != nil {
		return b.commitSpilled(ctx)
	}
	b.request = commit.Request{
		Payload:   b.arena,
		Records:   b.records,
		Isolation: commit.LastWriterWins,
		Synced:    synced,
	}
	_, err := b.db.commit(ctx, &b.request)
	return err
}

// Reset empties the batch, and keeps its memory for what comes.
func (b *Batch) Reset() {
	poison(b.arena)
	b.arena, b.records, b.spent = b.arena[:0], 0, false
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
