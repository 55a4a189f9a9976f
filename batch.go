package brock

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// Batch is a group of writes that are committed together or not at all. It reads
// nothing, so it never conflicts. Of several writes to a key the last one wins. A large
// Batch keeps its writes in files. If you don't commit a Batch, you need not end it.
// One goroutine at a time may use it.
//
// A Batch addresses one keyspace, the default one at first. In returns the same
// batch addressing another.
type Batch struct {
	*batch
	keyspace *Keyspace // the keyspace that it addresses
}

// batch is what the Batches of all keyspaces (Batch.In) have in common.
type batch struct {
	db     *DB    // the store
	writes writes // writes so far
	spent  bool   // Commit was called: it must be Reset first
	resets int    // how often it was Reset
}

var errUnknownDurability = &OptionError{Field: "Durability", Reason: "is unknown"}

var errBatchSpent = fmt.Errorf("brock: batch was committed, and not reset: %w", ErrInvalid)

// NewBatch returns an empty batch.
func (db *DB) NewBatch() *Batch { return db.main.NewBatch() }

// NewBatch returns an empty batch that addresses the keyspace.
func (k *Keyspace) NewBatch() *Batch {
	if k == nil || k.db == nil {
		return new(Batch)
	}
	b := &batch{db: k.db}
	b.writes.limit = k.db.opts.txnMemory(0)
	return &Batch{b, k}
}

// In returns the same batch, addressing the keyspace ks; nil is the default one. If
// ks is of another store, the calls that follow return ErrInvalid; if it was
// dropped, they or Commit return ErrKeyspaceNotFound.
func (b *Batch) In(ks *Keyspace) *Batch {
	if b.batch == nil {
		return b
	}
	// A stand-in if ks can't be used, so that the error comes from the next call, which returns
	// one.
	return &Batch{b.batch, resolveKeyspace(b.db, ks)}
}

// Set adds a pair. Key and value are copied. After an error that is ErrInvalid the batch is
// as before the call. After any other error, Reset it.
func (b *Batch) Set(key, value []byte) error {
	return b.addWrite(&Entry{Key: key, Value: value}, entry.Set)
}

// SetEntry adds a pair with its attributes. Key and value are copied; e can be used again. Its
// errors mean what those of Set mean.
func (b *Batch) SetEntry(e *Entry) error { return b.addWrite(e, entry.Set) }

// Delete adds the delete of key, which is copied. Its errors mean what those of Set mean.
func (b *Batch) Delete(key []byte) error { return b.addWrite(&Entry{Key: key}, entry.Delete) }

// checkUnspent returns nil while the batch can be used.
func (b *Batch) checkUnspent() error {
	if b.batch == nil {
		return ErrClosed
	}
	if err := checkWritable(b.db); err != nil {
		return err
	}
	if b.spent {
		return errBatchSpent
	}
	return nil
}

func (b *Batch) addWrite(e *Entry, kind entry.Kind) error {
	if err := b.checkBatch(); err != nil {
		return err
	}
	ctx := context.Background()
	if b.writes.HasVersions() && e != nil {
		if err := b.checkRoom(len(e.Key) + len(e.Value)); err != nil {
			return err
		}
	}
	return b.writes.finishWrite(ctx, b.db, b.writes.addWrite(ctx, b.keyspace, e, kind, b.db.now))
}

// checkBatch returns nil if the batch can write to its keyspace.
func (b *Batch) checkBatch() error {
	if err := b.checkUnspent(); err != nil {
		return err
	}
	if err := b.keyspace.checkExists(); err != nil {
		return err
	}
	return b.writes.Err()
}

// Len returns the number of writes.
func (b *Batch) Len() int {
	if b.batch == nil {
		return 0
	}
	return b.writes.Len()
}

// Size returns the bytes that the writes take in the journal or in files: keys, values as
// stored, and 4 to 40 bytes for each write.
func (b *Batch) Size() int64 {
	if b.batch == nil {
		return 0
	}
	return b.writes.Bytes()
}

// Commit commits the writes, with this durability, and returns their version, of several the
// greatest one; 0 if there were no writes. After At it returns ErrVersionMismatch, and has written
// nothing, if the least version is not above that of every commit before. Its other errors mean what those of Txn.Commit mean. Call Reset before you use the batch again,
// also after an error, except ErrInvalid.
func (b *Batch) Commit(ctx context.Context, d Durability) (version uint64, err error) {
	if err := b.checkUnspent(); err != nil {
		return 0, err
	}
	// Misuse comes before spent: after ErrInvalid the batch is as it was.
	if ctx == nil {
		return 0, errNilContext
	}
	if d > Buffered {
		return 0, errUnknownDurability
	}
	// Even if it fails: parts of it may be committed, so it can't be committed once more.
	b.spent = true
	if b.Len() == 0 {
		return 0, errs.Ended(ctx)
	}
	v, err := b.writes.commitUnchecked(ctx, b.db, b.db.opts.isSynced(d))
	// If they were committed, they are the store's, and stay. Else nobody else would remove them.
	b.writes.discardFiles()
	return uint64(v), err
}

// Reset empties the batch, and keeps its memory for later writes. Its files are removed.
func (b *Batch) Reset() {
	if b.batch == nil {
		return
	}
	b.writes.discardFiles()
	// The files go first, as Reset forgets them.
	b.writes.Reset()
	b.writes.written.Reset()
	b.spent = false
	b.resets++
}

// BatchSet writes entries in one commit, as a Batch does. If one of them can't be stored, none
// is. Keys and values are copied. It has the durability of Options; its errors are those of Set.
func (db *DB) BatchSet(entries []*Entry) error { return db.main.BatchSet(entries) }

// BatchSet is DB.BatchSet for keys of the keyspace.
func (k *Keyspace) BatchSet(entries []*Entry) error {
	return k.commitBatch(context.Background(), func(b *Batch) error {
		for _, e := range entries {
			if err := b.SetEntry(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// commitBatch commits the writes that fill adds to a batch, which addresses the keyspace.
func (k *Keyspace) commitBatch(ctx context.Context, fill func(b *Batch) error) error {
	// A batch that stays empty would not notice that the keyspace was dropped.
	if err := k.checkExists(); err != nil {
		return err
	}
	b := k.NewBatch()
	// Nobody else has the batch: if fill has failed behind writes that went to files, these would
	// lie there until the garbage collector finds the batch.
	defer b.writes.discardFiles()
	if err := fill(b); err != nil {
		return err
	}
	_, err := b.Commit(ctx, DefaultDurability)
	return err
}
