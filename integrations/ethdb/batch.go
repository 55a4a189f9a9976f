package brockethdb

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/brockdb/brock"
)

// batch is a group of writes. It keeps the calls in their order, for Replay, and so that it can be
// filled when the store is closed already, as go-ethereum's tests want it.
type batch struct {
	d      *Database
	ops    []byte // of each call: its kind, and each of its slices behind the length; see appendSlice
	size   int
	writes *brock.Batch // of the last Write, to be used again; nil before
}

// The kinds of calls.
const (
	putOp = iota
	deleteOp
	deleteRangeOp
)

// Put adds a pair.
func (b *batch) Put(key, value []byte) error {
	b.ops = appendSlice(appendSlice(append(b.ops, putOp), key), value)
	b.size += len(key) + len(value)
	return nil
}

// Delete adds the delete of key.
func (b *batch) Delete(key []byte) error {
	b.ops = appendSlice(append(b.ops, deleteOp), key)
	b.size += len(key)
	return nil
}

// DeleteRange adds the delete of all keys in [start, end), nil being no bound: those that are in the
// Database when the batch is written, and those that the batch has put before.
func (b *batch) DeleteRange(start, end []byte) error {
	b.ops = appendSlice(appendSlice(append(b.ops, deleteRangeOp), start), end)
	b.size += len(start) + len(end)
	return nil
}

// ValueSize returns the bytes of the keys and values of all calls since the last Reset.
func (b *batch) ValueSize() int { return b.size }

// Write commits all calls since the last Reset together. It may be called again.
func (b *batch) Write() error {
	if err := b.d.check(); err != nil {
		return err
	}
	if b.writes == nil {
		b.writes = b.d.keys.NewBatch()
	}
	defer b.writes.Reset() // also after an error, and so that it keeps no files
	err := b.each(b.writes.Set, b.writes.Delete, b.writes.DeleteRange)
	if err != nil {
		return err
	}
	_, err = b.writes.Commit(context.Background(), brock.DefaultDurability)
	return err
}

// Reset empties the batch, and keeps its memory.
func (b *batch) Reset() { b.ops, b.size = b.ops[:0], 0 }

// Close empties the batch, and gives up its memory.
func (b *batch) Close() { b.ops, b.size, b.writes = nil, 0, nil }

// Replay makes the calls since the last Reset once more, in their order, on w, which must copy what it
// keeps.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	ranges, ok := w.(ethdb.KeyValueRangeDeleter)
	deleteRange := func(start, end []byte) error {
		if !ok {
			return errors.New("brockethdb: what a batch is replayed on can't delete ranges")
		}
		return ranges.DeleteRange(start, end)
	}
	return b.each(w.Put, w.Delete, deleteRange)
}

// each makes the calls once more, up to the first error. Functions may add to the batch, but must copy
// what they keep: the next Reset gives the memory to others.
func (b *batch) each(put func(key, value []byte) error, del func(key []byte) error, deleteRange func(start, end []byte) error) error {
	for ops := slices.Clip(b.ops); len(ops) > 0; {
		kind := ops[0]
		var first, second []byte
		first, ops = cutSlice(ops[1:])
		if kind != deleteOp {
			second, ops = cutSlice(ops)
		}
		var err error
		switch kind {
		case putOp:
			err = put(first, second)
		case deleteOp:
			err = del(first)
		default:
			err = deleteRange(first, second)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendSlice appends the length of p plus one, or 0 if p is nil, which is no bound and not the same
// as empty, and then p.
func appendSlice(ops, p []byte) []byte {
	if p == nil {
		return append(ops, 0)
	}
	return append(binary.AppendUvarint(ops, uint64(len(p))+1), p...)
}

// cutSlice returns the slice that appendSlice has appended, and what follows.
func cutSlice(ops []byte) (p, rest []byte) {
	n, width := binary.Uvarint(ops)
	ops = ops[width:]
	if n == 0 {
		return nil, ops
	}
	return ops[: n-1 : n-1], ops[n-1:]
}
