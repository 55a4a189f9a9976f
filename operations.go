package brock

import (
	"context"
	"encoding/binary"

	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/commit"
)

// Op is an operation on the value of a key that the commit computes: see Txn.Apply. Its String is the
// name without "Op".
type Op = commit.Op

// The operations. Numbers are signed 64-bit integers in 8 bytes, little-endian. Where the key has no
// value, the result is the operand; OpClearIf does nothing then.
const (
	OpAdd     = commit.OpAdd     // the sum of two numbers, which wraps
	OpMin     = commit.OpMin     // the lesser of two numbers
	OpMax     = commit.OpMax     // the greater of two numbers
	OpOr      = commit.OpOr      // value | operand, of equal length
	OpAnd     = commit.OpAnd     // value & operand, of equal length
	OpAppend  = commit.OpAppend  // value, then operand: at most MaxOperand bytes together
	OpClearIf = commit.OpClearIf // deletes the key if its value equals the operand
)

// MaxOperand is how many bytes an operand, and the result of an operation, has at most.
const MaxOperand = commit.MaxOperand // 64 KiB

// VersionedSuffix is how many bytes a key of SetVersioned has behind its prefix.
const VersionedSuffix = commit.Suffix // 12

// Apply changes the value of key to what op makes of it and of operand. Key and operand are copied.
//
// The result is computed by the commit, from the newest value at that moment, and is then a value like
// any other. So two transactions that apply something to a key never conflict over that, at no
// isolation. But they write the key: a Serializable transaction that has read it conflicts with them.
// Metadata, OnlyLatest and expiry of the value stay. A value that has expired by the time of the
// commit counts as none. A new one gets the TTL of its keyspace, from the commit on.
//
// If a value's length does not fit the operation, the commit returns ErrInvalid, and writes nothing.
// A later Set, Delete or DeleteRange takes back what was applied. A key that the transaction itself has
// set or deleted gets its result at once, as by Set. So does a key that the transaction reads after the
// Apply: by Get, by First or Last, which pass it, or by an iterator that is moved by Seek or Rewind and
// has the key within its bounds.
// The result is then that of what the transaction sees, and is checked as Isolation says: a read of the
// key, and a Set.
//
// Applying is not idempotent: after a commit that failed with ErrStopped it is not known whether it
// was applied. It returns ErrInvalid for an unknown operation and an operand of a wrong length, and
// the errors of Set. Operations stay in memory: in a transaction that writes more than its MaxMemory,
// Apply or the call that writes too much returns ErrUnsupported.
func (t *Txn) Apply(op Op, key, operand []byte) error {
	if err := t.checkUpdate(); err != nil {
		return err
	}
	return t.writes.finishWrite(t.Context(), t.db, t.writes.apply(t.keyspace, key, commit.Step{Op: op, Operand: operand}, t.writeTime))
}

// SetVersioned sets a key that no transaction had before: prefix, the commit's version in 8 bytes, and 4
// bytes that count the calls of SetVersioned in the transaction, from 0. Both are big-endian. So the
// keys of a prefix are in the order of the commits, and within one in that of the calls, without a
// counter that all writers change: the tail of a queue, or a log. After Commit, CommitVersion tells
// the version.
//
// Prefix, which may be empty, and value are copied. The transaction itself does not see the key, which
// has no name yet, and its DeleteRange does not delete it. Of a keyspace with a TTL, that counts from
// the commit. Errors and limits are those of Apply.
func (t *Txn) SetVersioned(prefix, value []byte) error {
	if err := t.checkUpdate(); err != nil {
		return err
	}
	return t.writes.finishWrite(t.Context(), t.db, t.writes.setVersioned(t.keyspace, prefix, value))
}

// SetVersioned adds a set of a key that ends in the commit's version, as Txn.SetVersioned does. Its errors
// mean what those of Set mean.
func (b *Batch) SetVersioned(prefix, value []byte) error {
	if err := b.checkBatch(); err != nil {
		return err
	}
	if b.writes.HasVersions() {
		return errPartOperations
	}
	return b.writes.finishWrite(context.Background(), b.db, b.writes.setVersioned(b.keyspace, prefix, value))
}

// Add adds n to the number at key, which is 0 if there is none, and returns the sum. It is a commit of
// its own, with the durability of Options. Any number of calls at once each return another sum, in the
// order of their versions, and never conflict. It returns ErrInvalid if the key has a value that is not
// 8 bytes long, the error of ctx if that ends before the commit has begun, and the errors of Set. See
// Txn.Apply.
func (k *Keyspace) Add(ctx context.Context, key []byte, n int64) (int64, error) {
	if err := checkWriteTo(k); err != nil {
		return 0, err
	}
	if ctx == nil {
		return 0, errNilContext
	}
	w := newWrites()
	defer w.returnToPool()
	var operand [8]byte
	binary.LittleEndian.PutUint64(operand[:], uint64(n))
	if err := w.apply(k, key, commit.Step{Op: OpAdd, Operand: operand[:]}, k.db.now); err != nil {
		return 0, err
	}
	if _, err := w.commitUnchecked(ctx, k.db, k.db.opts.isSynced(DefaultDurability)); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(w.request.Operations[0].Result)), nil
}

// apply adds a step on a key of the keyspace k.
func (w *writes) apply(k *Keyspace, key []byte, s commit.Step, now func() uint64) (err error) {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := s.Op.CheckOperand(s.Operand); err != nil {
		return err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	k.noteWritten(&w.written)
	return w.Apply(k.encoder.Load(), key, s, now)
}

// setVersioned adds a versioned set in the keyspace k.
func (w *writes) setVersioned(k *Keyspace, prefix, value []byte) (err error) {
	switch {
	case len(prefix) > MaxKeySize-VersionedSuffix:
		return ErrKeyTooLarge
	case len(value) > MaxValueSize:
		return ErrValueTooLarge
	// Before it is copied: it would take more memory than the transaction may have.
	case int64(len(value)) > w.limit:
		return commit.ErrOperations
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	k.noteWritten(&w.written)
	return w.SetVersioned(k.encoder.Load(), prefix, value)
}
