package brock

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
)

// Batch is a group of writes that are made together or not at all, and that read
// nothing, so that they never conflict. A later write to a key wins. A Batch has
// no limit but MaxTxnMemory; it holds the records as the journal will. It needs no
// end: a Batch that is not committed is just forgotten.
type Batch struct {
	db      *DB
	arena   []byte
	key     []byte
	records int
	memory  int64          // what the records will take in a memtable
	ranges  *tombstone.Set // range deletes; the n-th record has version n here
	spent   bool           // by Commit
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

// usable returns nil while the batch takes writes.
func (b *Batch) usable() error {
	if b.db == nil {
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
	if err := b.usable(); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	if err := b.db.encoder.room(w, &b.memory); err != nil {
		return err
	}
	b.arena, b.key = b.db.encoder.append(b.arena, w, b.db.encoder.now, b.key)
	b.records++
	return nil
}

// Len is the number of writes.
func (b *Batch) Len() int { return b.records }

// Size is what the writes take in the journal, in bytes.
func (b *Batch) Size() int64 { return int64(len(b.arena)) }

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

func (b *Batch) commit(ctx context.Context, synced bool) error {
	payload, records := b.arena, b.records
	if b.ranges != nil {
		payload, records = surviving(b.arena, b.ranges, nil)
	}
	b.request = commit.Request{
		Payload:   payload,
		Records:   records,
		Ranges:    b.ranges.Len(),
		Isolation: commit.LastWriterWins,
		Synced:    synced,
	}
	_, err := b.db.commit(ctx, &b.request)
	return err
}

// Reset empties the batch, and keeps its memory for what comes.
func (b *Batch) Reset() {
	poison(b.arena)
	b.arena, b.records, b.memory, b.ranges, b.spent = b.arena[:0], 0, 0, nil, false
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
