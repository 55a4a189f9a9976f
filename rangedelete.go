package brock

import (
	"bytes"
	"context"
)

// DeleteRange deletes all keys in [lo, hi) by one record, however many there are;
// nil is no bound. It deletes keys that were committed before, and keys that this
// transaction has written so far; what the transaction writes later stays. It reads
// nothing, so it conflicts with nothing by itself.
func (t *Txn) DeleteRange(lo, hi []byte) error {
	if err := t.usable(); err != nil {
		return err
	}
	if t.writes == nil {
		return ErrReadOnly
	}
	if len(lo) > MaxKeySize || len(hi) > MaxKeySize {
		return ErrKeyTooLarge
	}
	lo, hi = t.keyspace.bounds(lo, hi)
	if bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	if err := t.writes.Err(); err != nil {
		return err
	}
	// The write is noted before it is made: the commit refuses a dropped keyspace.
	t.keyspace.note(&t.writes.written)
	t.writes.DeleteRange(lo, hi)
	return t.spillIfLarge()
}

// DeleteRange adds the delete of all keys in [lo, hi), nil being no bound: those
// committed before the batch, and those that the batch has written so far.
func (b *Batch) DeleteRange(lo, hi []byte) error {
	if err := b.takes(); err != nil {
		return err
	}
	if len(lo) > MaxKeySize || len(hi) > MaxKeySize {
		return ErrKeyTooLarge
	}
	return b.deleteStored(b.keyspace.bounds(lo, hi))
}

// deleteStored adds the delete of the stored keys in [lo, hi). It keeps the bounds.
func (b *Batch) deleteStored(lo, hi []byte) error {
	if bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	b.writes.DeleteRange(lo, hi)
	b.keyspace.note(&b.writes.written)
	return b.spillIfLarge()
}

// DeleteRange deletes all keys in [lo, hi) at once and by one record, however many
// there are; nil is no bound. Readers that began before still see them. The disk
// space is freed in the background.
func (db *DB) DeleteRange(lo, hi []byte) error { return db.main.DeleteRange(lo, hi) }

// DeleteRange is DB.DeleteRange for keys of the keyspace.
func (k *Keyspace) DeleteRange(lo, hi []byte) error {
	return k.deleteRange(context.Background(), lo, hi)
}

func (k *Keyspace) deleteRange(ctx context.Context, lo, hi []byte) error {
	if err := k.usable(); err != nil {
		return err
	}
	b := k.db.NewBatch().In(k)
	if err := b.DeleteRange(lo, hi); err != nil {
		return err
	}
	return b.Commit(ctx)
}

// Clear deletes all keys of the keyspace, as DeleteRange does. It is a commit like any
// other, for readers and in histories. The keyspace stays.
func (k *Keyspace) Clear(ctx context.Context) error { return k.deleteRange(ctx, nil, nil) }

// DropPrefix deletes all keys of the default keyspace that begin with one of the
// prefixes, in one commit, as DeleteRange does. An empty prefix means all keys.
func (db *DB) DropPrefix(ctx context.Context, prefixes ...[]byte) error {
	b := db.NewBatch()
	if err := b.takes(); err != nil {
		return err
	}
	for _, p := range prefixes {
		if len(p) > MaxKeySize {
			return ErrKeyTooLarge
		}
		o := IteratorOptions{Prefix: p}
		if err := b.deleteStored(o.bounds(b.keyspace)); err != nil {
			return err
		}
	}
	return b.Commit(ctx)
}

// DropAll deletes all keys of all keyspaces in one commit, as DeleteRange does. The
// keyspaces stay.
func (db *DB) DropAll(ctx context.Context) error {
	if err := db.writable(); err != nil {
		return err
	}
	db.keyspaces.mu.Lock() // none is dropped meanwhile
	defer db.keyspaces.mu.Unlock()
	b := db.NewBatch()
	if err := b.DeleteRange(nil, nil); err != nil {
		return err
	}
	for _, k := range db.keyspaces.byName {
		if err := b.In(k).DeleteRange(nil, nil); err != nil {
			return err
		}
	}
	return b.Commit(ctx)
}
