package brock

import "context"

// DeleteRange deletes all keys in [lo, hi) by one record, however many there are;
// nil is no bound. It deletes keys that were committed before, and keys that this
// transaction has written so far; what the transaction writes later stays. It reads
// nothing, so it conflicts with nothing by itself. The bounds are copied. A range with
// lo >= hi is empty and no error. Its errors are those of Set.
func (t *Txn) DeleteRange(lo, hi []byte) error {
	if err := t.checkUpdate(); err != nil {
		return err
	}
	return t.writes.finishWrite(t.Context(), t.db, t.writes.deleteRange(t.keyspace, lo, hi))
}

// DeletePrefix deletes all keys that begin with prefix, as DeleteRange does; an empty prefix means
// all keys. prefix is copied. For a Batch: b.DeleteRange(PrefixRange(prefix)).
func (t *Txn) DeletePrefix(prefix []byte) error {
	prefix, err := cloneKey(prefix) // it may lie in a mapped file, and PrefixRange has no guard
	if err != nil {
		return err
	}
	return t.DeleteRange(PrefixRange(prefix))
}

// DeleteRange adds the delete of all keys in [lo, hi), nil being no bound: those
// committed before the batch, and those that the batch has written so far. The bounds are
// copied. Its errors mean what those of Set mean.
func (b *Batch) DeleteRange(lo, hi []byte) error {
	if err := b.checkBatch(); err != nil {
		return err
	}
	return b.writes.finishWrite(context.Background(), b.db, b.writes.deleteRange(b.keyspace, lo, hi))
}

// DeleteRange deletes all keys in [lo, hi) at once and by one record, however many
// there are; nil is no bound. Readers that began before still see them. The disk
// space is freed in the background. It is a commit of its own, with the durability and the
// errors of Set. The bounds are copied.
func (db *DB) DeleteRange(lo, hi []byte) error { return db.main.DeleteRange(lo, hi) }

// DeleteRange is DB.DeleteRange for keys of the keyspace.
func (k *Keyspace) DeleteRange(lo, hi []byte) error {
	return k.deleteRange(context.Background(), lo, hi)
}

func (k *Keyspace) deleteRange(ctx context.Context, lo, hi []byte) error {
	return k.commitBatch(ctx, func(b *Batch) error { return b.DeleteRange(lo, hi) })
}

// Clear deletes all keys of the keyspace, as DeleteRange does. It is a commit like any
// other, for readers and in histories. The keyspace stays. ctx can end the wait for the
// commit's turn. Durability and errors are those of Set.
func (k *Keyspace) Clear(ctx context.Context) error { return k.deleteRange(ctx, nil, nil) }

// DropPrefix deletes all keys of the default keyspace that begin with one of the
// prefixes, in one commit, as DeleteRange does. An empty prefix means all keys. Context,
// durability and errors are as for Keyspace.Clear.
func (db *DB) DropPrefix(ctx context.Context, prefixes ...[]byte) error {
	return db.main.DropPrefix(ctx, prefixes...)
}

// DropPrefix is DB.DropPrefix for keys of the keyspace.
func (k *Keyspace) DropPrefix(ctx context.Context, prefixes ...[]byte) error {
	return k.commitBatch(ctx, func(b *Batch) error {
		for _, p := range prefixes {
			// It may lie in a mapped file, and PrefixRange has no guard.
			p, err := cloneKey(p)
			if err != nil {
				return err
			}
			if err := b.DeleteRange(PrefixRange(p)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DropAll deletes all keys of all keyspaces in one commit, as DeleteRange does. The
// keyspaces stay. It waits for calls that make, change or drop a keyspace. Context,
// durability and errors are as for Keyspace.Clear.
func (db *DB) DropAll(ctx context.Context) error {
	if err := checkWork(ctx, db); err != nil {
		return err
	}
	if err := db.keyspaces.turn.Take(ctx); err != nil { // none is dropped meanwhile
		return err
	}
	defer db.keyspaces.turn.Leave()
	return db.main.commitBatch(ctx, func(b *Batch) error {
		for ks := range db.Keyspaces() {
			if err := b.In(ks).DeleteRange(nil, nil); err != nil {
				return err
			}
		}
		return b.DeleteRange(nil, nil)
	})
}
