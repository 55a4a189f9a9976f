package typed

import (
	"bytes"
	"cmp"
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
	err := b.update(ctx, brock.Serializable, b.begin)
	if err == nil && b.token != 0 {
		if err = b.build(ctx); err != nil && !errors.Is(err, ErrTakenOver) {
			// Without it writers would go on leaving marks, or be refused.
			undo := func(txn *brock.Txn, d *declaration) error {
				d.Building, d.Closed = 0, false
				return b.store(txn, d)
			}
			err = errors.Join(err, b.update(context.WithoutCancel(ctx), brock.Serializable, undo))
		}
	}
	if err != nil {
		err = fmt.Errorf("typed: rebuild of table %q: %w", t.name, err)
	}
	return err
}

// build does all that follows the begin.
func (b *rebuild[K, R]) build(ctx context.Context) error {
	err := b.awaitOlder(ctx)
	if err == nil {
		err = b.takeAll(ctx, brock.SnapshotIsolation, b.table.records)
	}
	// In passes, as long as each finds much less than the one before.
	for before := math.MaxInt; err == nil; before = b.taken {
		err = b.takeAll(ctx, brock.SnapshotIsolation, b.table.marks)
		if b.taken < batch || b.taken > before/2 {
			break
		}
	}
	// Writers that are faster than the switch would be a conflict for ever: there may be no more.
	if err == nil {
		err = b.update(ctx, brock.Serializable, func(txn *brock.Txn, d *declaration) error {
			d.Closed = true
			return b.table.storeDeclaration(txn, d)
		})
	}
	if err == nil {
		err = b.takeAll(ctx, brock.Serializable, b.table.marks)
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
	taken int          // records of the last takeAll
}

// update runs fn in a transaction, with the declaration that is stored; nil if there is none. It
// returns ErrTakenOver if another Rebuild has begun.
func (b *rebuild[K, R]) update(ctx context.Context, level brock.Isolation, fn func(txn *brock.Txn, d *declaration) error) error {
	o := brock.TxnOptions{Isolation: level}
	if level == brock.SnapshotIsolation {
		o.Retries = -1 // what has conflicted is left for later
	}
	return b.db.UpdateContext(ctx, o, func(txn *brock.Txn) error {
		txn, d, err := b.table.enter(txn)
		if err != nil && !errors.Is(err, ErrDeclaration) {
			return err
		}
		if b.token != 0 && (d == nil || d.Building != b.token) {
			return ErrTakenOver
		}
		if d != nil { // all calls share it
			own := *d
			d = &own
		}
		return fn(txn, d)
	})
}

// begin records that writers have to leave marks, and removes what an earlier Rebuild has left.
func (b *rebuild[K, R]) begin(txn *brock.Txn, d *declaration) error {
	b.token, b.fresh, b.now = 0, nil, b.table.declared()
	if d == nil {
		return b.store(txn, b.now)
	}
	changed := func(part string) bool { return d.Parts[part] != b.now.Parts[part] }
	changes, dead := d.listChanges(b.now), d.Building != 0
	if d.Building, d.Closed = 0, false; len(changes) == 0 && !dead {
		return nil
	}
	if len(changes) > 0 {
		for _, ix := range b.table.indexes {
			number := d.Numbers[ix.name]
			if changed("key codec") || changed("record codec") || changed(ix.part()) {
				number, d.Next = d.Next, d.Next+1
				b.fresh = append(b.fresh, ix)
			}
			b.now.Numbers[ix.name] = number
		}
		b.token, d.Building, d.Next = d.Next, d.Next, d.Next+1
		b.now.Next = d.Next
	}
	return b.store(txn, d)
}

// store writes d, and deletes all marks, and all entries but those of its indexes. A writer at
// SnapshotIsolation that has left a mark conflicts with that, too.
func (b *rebuild[K, R]) store(txn *brock.Txn, d *declaration) error {
	t := b.table
	lo, err := t.entries, txn.DeletePrefix(t.marks)
	for _, number := range slices.Sorted(maps.Values(d.Numbers)) {
		hi := appendInteger(bytes.Clone(t.entries), number, false)
		err = cmp.Or(err, txn.DeleteRange(lo, hi))
		lo = pastValue(hi)
	}
	return cmp.Or(err, txn.DeleteRange(lo, pastValue(t.entries)), t.storeDeclaration(txn, d))
}

// awaitOlder waits until no transaction reads a version before the begin: it would not know that it
// has to leave marks. If it is Serializable it can't commit, as it has read the declaration; but at
// SnapshotIsolation it can.
func (b *rebuild[K, R]) awaitOlder(ctx context.Context) error {
	begun, wait := b.db.Version(), time.Millisecond
	for m := b.db.Metrics(); m.Tree.PinnedVersion != 0 && m.Tree.PinnedVersion < begun; m = b.db.Metrics() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, 100*time.Millisecond)
		}
	}
	return nil
}

// takeAll makes the entries of all records right, or of those that have marks: base is what the keys of
// records or marks begin with. At SnapshotIsolation a batch conflicts with writers of its marks alone.
//
// At Serializable, the batch that finds no further mark switches. It has read all marks, and each
// writer has read the declaration or conflicts over its mark: so none is missed. Writers at
// SnapshotIsolation that began before the table was closed may still come: then it begins again.
func (b *rebuild[K, R]) takeAll(ctx context.Context, level brock.Isolation, base []byte) (err error) {
	b.taken = 0
	marked := bytes.Equal(base, b.table.marks)
	for next := []byte{}; err == nil && next != nil; {
		from := next
		if level == brock.Serializable {
			from = []byte{}
		}
		err = b.update(ctx, level, func(txn *brock.Txn, _ *declaration) (err error) {
			next, err = walkBatch(txn, base, from, func(_ *brock.Item, k []byte) error { return b.takeRecord(txn, k, marked) })
			if err == nil && next == nil && level == brock.Serializable {
				err = b.store(txn, b.now)
			}
			return err
		})
		if errors.Is(err, brock.ErrConflict) {
			err = nil
			if !marked || level == brock.Serializable { // else these marks are left for the next pass
				next = from
			}
		}
	}
	return err
}

// takeRecord makes the entries right that the record under k has in the indexes that are built. With
// marked it deletes those of the mark's bytes, and the mark. It writes all of the record's: if it had
// its mark before it was to be built from, it has none yet. A record that a writer changes while this
// transaction runs has a mark by that: it says what is to be corrected.
func (b *rebuild[K, R]) takeRecord(txn *brock.Txn, k []byte, marked bool) error {
	t, c := b.table, call[R]{txn: txn, stored: b.now, key: k}
	at := join(t.marks, k)
	mark, err := lookUp(txn, at)
	if err != nil || !marked && mark != nil { // the mark's bytes are not those that would be built from
		return err
	}
	if b.taken++; marked {
		c.writes = append(c.writes, write{key: at, deletes: true})
	}
	var old *R
	if len(mark) > 0 && mark[0] == 1 {
		old, err = t.decodeRecord(mark[1:])
	}
	_, r, err2 := t.readRecord(txn, k)
	_, err3 := t.decodeKey(k) // of another codec, it is the end before the table is declared so
	err = cmp.Or(err, err2, err3)
	for _, ix := range b.fresh {
		err = cmp.Or(err, t.planEntries(&c, ix, old, nil), t.planEntries(&c, ix, nil, r))
	}
	if err != nil {
		return err
	}
	return t.carryOut(&c)
}

// One transaction of Verify or Rebuild looks at so many keys, with values of so many bytes.
const (
	batch      = 256
	batchBytes = 4 << 20
)

// walkBatch calls fn with the items of a batch, and what follows base in their keys, from one on. It
// returns where the next batch begins; nil at the end.
func walkBatch(txn *brock.Txn, base, from []byte, fn func(item *brock.Item, rest []byte) error) ([]byte, error) {
	n, size := 0, int64(0)
	for item, err := range txn.Items(brock.IteratorOptions{Lower: join(base, from), Upper: pastValue(base)}) {
		if err != nil {
			return nil, err
		}
		rest := bytes.Clone(item.Key()[len(base):])
		if n, size = n+1, size+item.ValueSize(); n > 1 && (n > batch || size > batchBytes) {
			return rest, nil
		}
		if err := fn(item, rest); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
