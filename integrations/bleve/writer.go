package brockbleve

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	store "github.com/blevesearch/upsidedown_store_api"

	"github.com/brockdb/brock"
)

// writer makes batches, and has no state.
type writer struct{ s *Store }

// NewBatch returns an empty batch.
func (w *writer) NewBatch() store.KVBatch { return &batch{s: w.s} }

// NewBatchEx returns an empty batch, and TotalBytes of memory for its keys and values.
func (w *writer) NewBatchEx(o store.KVBatchOptions) ([]byte, store.KVBatch, error) {
	if o.TotalBytes < 0 {
		return nil, nil, fmt.Errorf("brockbleve: a batch of %d bytes: %w", o.TotalBytes, brock.ErrInvalid)
	}
	return make([]byte, o.TotalBytes), w.NewBatch(), nil
}

// ExecuteBatch makes the calls of the batch in their order, and commits all of them or none. It may be
// called again. For a batch of another kind of store it returns brock.ErrInvalid.
func (w *writer) ExecuteBatch(kv store.KVBatch) error {
	b, ok := kv.(*batch)
	if !ok {
		return fmt.Errorf("brockbleve: a batch of another store: %T: %w", kv, brock.ErrInvalid)
	}
	if !b.merging { // it reads nothing, so it can't conflict
		writes := w.s.keys.NewBatch()
		defer writes.Reset()
		for _, op := range b.ops {
			if err := op.write(writes); err != nil {
				return err
			}
		}
		_, err := writes.Commit(context.Background(), brock.DefaultDurability)
		return err
	}
	if w.s.merge == nil {
		return fmt.Errorf("brockbleve: a Merge without a merge operator: %w", brock.ErrInvalid)
	}
	return w.s.keys.Update(func(txn *brock.Txn) error {
		for _, op := range b.ops {
			if err := op.merge(txn, w.s.merge); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends the writer. Nothing waits for it.
func (w *writer) Close() error { return nil }

// operation is a call of a batch: a set, a delete, or merges of one key in a row.
type operation struct {
	key      []byte
	value    []byte   // of a set, never nil; nil: a delete, or merges
	operands [][]byte // of merges; nil: none
}

// sink is what a Batch and a Txn have in common.
type sink interface {
	Set(key, value []byte) error
	Delete(key []byte) error
}

// write makes a set or delete.
func (op *operation) write(to sink) error {
	if op.value == nil {
		return to.Delete(op.key)
	}
	return to.Set(op.key, op.value)
}

// merge makes the operation in a transaction, which may run again.
func (op *operation) merge(txn *brock.Txn, mo store.MergeOperator) error {
	if op.operands == nil {
		return op.write(txn)
	}
	var existing []byte // nil: there is none
	switch item, err := txn.Get(op.key); {
	case errors.Is(err, brock.ErrKeyNotFound):
	case err != nil:
		return err
	default:
		if existing, err = item.ValueCopy(nil); err != nil { // the operator may change it
			return err
		}
	}
	merged, ok := mo.FullMerge(op.key, existing, op.operands)
	if !ok {
		return fmt.Errorf("brockbleve: the merge operator %s failed", mo.Name())
	}
	return txn.Set(op.key, merged)
}

// batch keeps calls in their order. Merges of a key are put together as far as no set or delete of the
// key is between them.
type batch struct {
	s       *Store
	ops     []operation
	merging bool           // some of them are merges
	merges  map[string]int // of a key whose last call was a merge: its index in ops
}

// Set adds a pair, which is copied.
func (b *batch) Set(key, val []byte) {
	delete(b.merges, string(key))
	b.ops = append(b.ops, operation{key: bytes.Clone(key), value: append([]byte{}, val...)})
}

// Delete adds the delete of key.
func (b *batch) Delete(key []byte) {
	delete(b.merges, string(key))
	b.ops = append(b.ops, operation{key: bytes.Clone(key)})
}

// Merge adds a merge of the value of key with val, by the operator of the store. Both are copied.
func (b *batch) Merge(key, val []byte) {
	val = append([]byte{}, val...)
	if n, ok := b.merges[string(key)]; ok {
		op := &b.ops[n]
		last := &op.operands[len(op.operands)-1]
		if b.s.merge != nil {
			if merged, ok := b.s.merge.PartialMerge(op.key, *last, val); ok {
				*last = merged
				return
			}
		}
		op.operands = append(op.operands, val)
		return
	}
	if b.merges == nil {
		b.merges = make(map[string]int)
	}
	b.merging = true
	b.merges[string(key)] = len(b.ops)
	b.ops = append(b.ops, operation{key: bytes.Clone(key), operands: [][]byte{val}})
}

// Reset empties the batch, merges included.
func (b *batch) Reset() { b.ops, b.merging, b.merges = nil, false, nil }

// Close is Reset.
func (b *batch) Close() error {
	b.Reset()
	return nil
}
