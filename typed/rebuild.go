package typed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/brockdb/brock"
)

// Rebuild makes the store agree with the table's declaration, beside readers and writers of the old
// one. It builds the indexes that are new or declared otherwise, and all if key or record codec have
// changed, and removes those that are gone. Then one transaction switches: from then on calls with
// the old declaration return a *DeclarationError, and this table works. Records stay as they are:
// this Table's codecs must be able to read them. If nothing has changed, it does nothing.
//
// While it runs, each write of the table also leaves a mark, with the bytes that the record had
// before. Rebuild waits first until the transactions that were open when it began have ended, so
// call it in none. It does not wait for others. In its last moments, while it takes the last marks,
// writes return the *DeclarationError already.
//
// After an error the store has the old declaration, and nothing of the new indexes: a
// *DuplicateError if records have one value of a new unique index, ErrTakenOver, the error of ctx,
// or one of a codec or the store. A process that dies leaves the marks and what it has built, which
// nobody reads, and if it was in its last moments, writes are still refused: the next Rebuild, of
// the new declaration or the old one, removes all that and begins anew.
func (t *Table[K, R]) Rebuild(ctx context.Context, db *brock.DB) error {
	if db == nil || ctx == nil {
		return misuse("nil store or context")
	}
	b := &rebuild[K, R]{table: t, db: db}
	begun, err := b.update(ctx, brock.Serializable, b.begin)
	if err == nil && b.token != 0 {
		if err = b.build(ctx, begun); err != nil && !errors.Is(err, ErrTakenOver) {
			// Without it writers would go on leaving marks, or be refused.
			_, err2 := b.update(context.WithoutCancel(ctx), brock.Serializable, func(txn *brock.Txn, d *declaration) error {
				d.Building, d.Closed = 0, false
				return b.store(txn, d)
			})
			err = errors.Join(err, err2)
		}
	}
	if err != nil {
		err = fmt.Errorf("typed: rebuild of table %q: %w", t.name, err)
	}
	return err
}

// build does all that follows the begin, which had the version begun.
func (b *rebuild[K, R]) build(ctx context.Context, begun uint64) error {
	err := b.awaitOlder(ctx, begun)
	for from := b.table.records; err == nil && from != nil; {
		from, err = b.buildBatch(ctx, from)
	}
	// In passes, as long as each finds much less than the one before.
	for left, before := 0, math.MaxInt; err == nil; before = left {
		left = 0
		for from := b.table.marks; err == nil && from != nil; {
			n := 0
			n, from, err = b.takeMarks(ctx, brock.SnapshotIsolation, from)
			left += n
		}
		if left < batch || left > before/2 {
			break
		}
	}
	// Writers that are faster than the switch would be a conflict for ever: there may be no more.
	if err == nil {
		_, err = b.update(ctx, brock.Serializable, func(txn *brock.Txn, d *declaration) error {
			d.Closed = true
			return b.table.storeDeclaration(txn, d)
		})
	}
	// Those at SnapshotIsolation that had begun before may still come: then it begins again.
	for from := b.table.marks; err == nil && from != nil; {
		_, from, err = b.takeMarks(ctx, brock.Serializable, b.table.marks)
	}
	return err
}

// rebuild is a Rebuild under way.
type rebuild[K, R any] struct {
	table *Table[K, R]
	db    *brock.DB
	token uint64       // declaration.Building while nobody else has begun; 0: there is nothing to build
	now   *declaration // what is to be stored in the end
	fresh []*index[R]  // those that are built
}

// update runs fn in a transaction, with the declaration that is stored; nil if there is none. It
// returns ErrTakenOver if another Rebuild has begun, and the version of the commit.
func (b *rebuild[K, R]) update(ctx context.Context, level brock.Isolation, fn func(txn *brock.Txn, d *declaration) error) (uint64, error) {
	var last *brock.Txn
	o := brock.TxnOptions{Isolation: level}
	if level == brock.SnapshotIsolation {
		o.Retries = -1 // what has conflicted is left for later
	}
	err := b.db.UpdateContext(ctx, o, func(txn *brock.Txn) error {
		last = txn
		txn, d, err := b.table.enter(txn)
		if err != nil && !errors.Is(err, ErrDeclaration) {
			return err
		}
		if b.token != 0 && (d == nil || d.Building != b.token) {
			return ErrTakenOver
		}
		if d != nil {
			d = &declaration{Parts: d.Parts, Numbers: d.Numbers, Next: d.Next, Building: d.Building, Closed: d.Closed}
		}
		return fn(txn, d)
	})
	if err != nil {
		return 0, err
	}
	return last.CommitVersion(), nil
}

// begin records that writers have to leave marks, and removes what an earlier Rebuild has left.
func (b *rebuild[K, R]) begin(txn *brock.Txn, d *declaration) error {
	b.token, b.fresh, b.now = 0, nil, b.table.declared()
	if d == nil {
		return b.store(txn, b.now)
	}
	changes, dead := d.listChanges(b.now), d.Building != 0
	switch d.Building, d.Closed = 0, false; {
	case len(changes) == 0 && dead:
		return b.store(txn, d)
	case len(changes) == 0:
		return nil
	}
	all := d.Parts["key codec"] != b.now.Parts["key codec"] || d.Parts["record codec"] != b.now.Parts["record codec"]
	for _, ix := range b.table.indexes {
		number := d.Numbers[ix.name]
		if all || d.Parts[ix.part()] != b.now.Parts[ix.part()] {
			number, d.Next = d.Next, d.Next+1
			b.fresh = append(b.fresh, ix)
		}
		b.now.Numbers[ix.name] = number
	}
	b.token, d.Building, d.Next = d.Next, d.Next, d.Next+1
	b.now.Next = d.Next
	return b.store(txn, d)
}

// store writes d, and deletes all marks, and all entries but those of its indexes. A writer at
// SnapshotIsolation that has left a mark conflicts with that, too.
func (b *rebuild[K, R]) store(txn *brock.Txn, d *declaration) error {
	t, lo := b.table, b.table.entries
	ranges := [][2][]byte{{t.marks, pastValue(t.marks)}}
	for _, number := range slices.Sorted(maps.Values(d.Numbers)) {
		hi := appendInteger(bytes.Clone(t.entries), number, false)
		ranges = append(ranges, [2][]byte{lo, hi})
		lo = pastValue(hi)
	}
	for _, r := range append(ranges, [2][]byte{lo, pastValue(t.entries)}) {
		if err := txn.DeleteRange(r[0], r[1]); err != nil {
			return err
		}
	}
	return t.storeDeclaration(txn, d)
}

// awaitOlder waits until no transaction reads a version before begun: it would not know that it has
// to leave marks. If it is Serializable it can't commit, as it has read the declaration; but at
// SnapshotIsolation it can.
func (b *rebuild[K, R]) awaitOlder(ctx context.Context, begun uint64) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		m := b.db.Metrics()
		if oldest := m.Tree.PinnedVersion; oldest == 0 || oldest >= begun {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// buildBatch writes the entries of the next records, and returns where to go on; nil at the end. The
// records are read at one version and the entries written at a later one, without a conflict: a
// record that was written meanwhile has a mark, which says what is to be corrected. One that has a
// mark already is left out, as the mark's bytes are not those that would be built from.
func (b *rebuild[K, R]) buildBatch(ctx context.Context, from []byte) (next []byte, err error) {
	t := b.table
	err = b.db.ViewContext(ctx, brock.TxnOptions{}, func(records *brock.Txn) error {
		records = records.In(t.ks)
		_, err := b.update(ctx, brock.Serializable, func(txn *brock.Txn, _ *declaration) error {
			n, size := 0, int64(0)
			next = nil
			for item, err := range records.Items(brock.IteratorOptions{Lower: from, Upper: pastValue(t.records)}) {
				if err != nil {
					return err
				}
				if n, size = n+1, size+item.ValueSize(); n > 1 && (n > batch || size > batchBytes) {
					next = item.KeyCopy(nil)
					return nil
				}
				k := join(nil, item.Key()[len(t.records):])
				mark, err := records.Has(join(t.marks, k))
				if err == nil && !mark {
					err = b.correct(records, txn, k, nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	return next, err
}

// batchBytes bounds the records of one transaction of Rebuild.
const batchBytes = 4 << 20

// correct deletes the entries that old has in the indexes that are built, if it is not nil, and
// writes those of the record under k. It writes them all: if the record had its mark before it was
// to be built from, it has none yet.
func (b *rebuild[K, R]) correct(records, txn *brock.Txn, k []byte, old *R) error {
	t := b.table
	_, r, err := t.readRecord(records, k)
	if err == nil { // of another codec, it is the end before the table is declared so
		_, err = t.decodeKey(k)
	}
	for _, ix := range b.fresh {
		at := place[R]{records, txn, ix, t.entryBase(ix, b.now)}
		for _, change := range [][2]*R{{old, nil}, {nil, r}} {
			var p plan
			if err == nil {
				err = t.planIndex(&p, at, k, change[0], change[1])
			}
			if err == nil {
				err = t.carryOut(txn, p)
			}
		}
	}
	return err
}

// takeMarks corrects the entries of a batch of records that have marks, from a mark on, deletes the
// marks, and returns how many there were, and where to go on; nil at the end. If that is reached and
// the level is Serializable, it switches in the same transaction. That one has read that there is
// no further mark, and each writer has read the declaration or conflicts over its mark: so none is
// missed. At SnapshotIsolation only a writer of the same record conflicts. A batch that does is left
// as it was, for later.
func (b *rebuild[K, R]) takeMarks(ctx context.Context, level brock.Isolation, from []byte) (n int, next []byte, err error) {
	_, err = b.update(ctx, level, func(txn *brock.Txn, _ *declaration) error {
		n, next = 0, nil
		for item, err := range txn.Items(brock.IteratorOptions{Lower: from, Upper: pastValue(b.table.marks), Limit: batch}) {
			if err == nil {
				n, next = n+1, item.KeyCopy(nil)
				err = b.takeMark(txn, item, next)
			}
			if err != nil {
				return err
			}
		}
		if next = append(next, 0); n < batch {
			next = nil
		}
		if level == brock.Serializable && next == nil {
			return b.store(txn, b.now)
		}
		return nil
	})
	if errors.Is(err, brock.ErrConflict) {
		if err = nil; next == nil && level == brock.Serializable {
			next = from
		}
	}
	return n, next, err
}

// takeMark corrects the entries of a record that has a mark, and deletes the mark.
func (b *rebuild[K, R]) takeMark(txn *brock.Txn, item *brock.Item, at []byte) error {
	mark, err := item.ValueCopy(nil)
	var old *R
	if err == nil && len(mark) > 0 && mark[0] == 1 {
		old, err = b.table.decodeRecord(mark[1:])
	}
	if err == nil {
		err = b.correct(txn, txn, at[len(b.table.marks):], old)
	}
	if err == nil {
		err = txn.Delete(at)
	}
	return err
}
