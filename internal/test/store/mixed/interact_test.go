package mixed

import (
	"errors"
	"maps"
	"slices"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// savepoint is a Savepoint, and what the transaction has written up to it.
type savepoint struct {
	brock.Savepoint
	seen   state
	writes []write
}

// interaction is a transaction beside which there is no other.
type interaction struct {
	*world
	txn    *brock.Txn
	locks  bool    // its isolation lets it lock
	plain  bool    // without operations, as it goes to files
	seen   state   // what it must see
	writes []write // what it has written, without what was rolled back
	points []savepoint
}

// interact does a transaction that reads what it writes, and goes back to savepoints.
func (w *world) interact() {
	o := brock.TxnOptions{Update: true, Isolation: brock.Isolation(w.r.IntN(3)), CommitAt: w.drawVersion(w.r)}
	if w.r.IntN(8) == 0 {
		o.MaxMemory = 1 + w.r.Int64N(5000)
	}
	i := &interaction{world: w, plain: o.MaxMemory > 0 && w.r.IntN(4) > 0, seen: maps.Clone(w.newest().state), locks: o.Isolation != brock.LastWriterWins}
	i.txn = assert.Must(w.Begin(w.t.Context(), o))
	defer i.txn.Discard()
	for range w.r.IntN(25) {
		if err := i.move(); err != nil {
			if !errors.Is(err, brock.ErrUnsupported) || o.MaxMemory == 0 {
				w.t.Fatalf("%v in %s", err, showWrites(i.writes))
			}
			return // operations in a transaction larger than its memory
		}
	}
	before := w.Version()
	if err := i.txn.Commit(); err != nil {
		if !errors.Is(err, brock.ErrUnsupported) || o.MaxMemory == 0 {
			w.t.Fatalf("%v in %s", err, showWrites(i.writes))
		}
		return
	}
	v := i.txn.CommitVersion()
	switch {
	case v == 0:
		assert.Equal(w.t, "version", w.Version(), before)
		if !maps.Equal(i.seen, w.newest().state) || slices.ContainsFunc(i.writes, func(x write) bool { return x.kind == versioned }) {
			w.t.Fatalf("nothing was committed of %s", showWrites(i.writes))
		}
	case v != max(before+1, o.CommitAt):
		w.t.Fatalf("the version is %d, was %d, given was %d", v, before, o.CommitAt)
	default:
		w.add([]part{{version: v, writes: i.writes}}, 0)
	}
}

// move writes, reads, or goes to a savepoint.
func (i *interaction) move() error {
	r := i.r
	switch r.IntN(16) {
	case 0, 1:
		i.points = append(i.points, savepoint{i.txn.Savepoint(), maps.Clone(i.seen), slices.Clone(i.writes)})
	case 2, 3:
		return i.rollback()
	case 4, 5:
		return i.get(drawPlace(r))
	case 6:
		return i.walk()
	case 7, 8:
		return i.seek()
	case 9:
		if i.locks {
			p := drawPlace(r)
			return i.txn.In(i.keyspace(p.side)).Lock([]byte(p.key))
		}
	default:
		x := drawWrite(r, i.plain || r.IntN(4) == 0)
		if err := i.writeTxn(i.txn, x); err != nil {
			return err
		}
		if i.writes = append(i.writes, x); x.kind != versioned {
			i.seen.do(x, 0, 0)
		}
	}
	return nil
}

// rollback goes back to a savepoint, which ends later ones.
func (i *interaction) rollback() error {
	if len(i.points) == 0 {
		return nil
	}
	n := i.r.IntN(len(i.points))
	p := i.points[n]
	switch err := i.txn.RollbackTo(p.Savepoint); {
	case errors.Is(err, brock.ErrInvalid): // in files
		return nil
	case err != nil:
		return err
	}
	for _, later := range i.points[n+1:] {
		assert.Error(i.t, "a later savepoint", i.txn.RollbackTo(later.Savepoint), brock.ErrInvalid)
	}
	i.points = i.points[:n+1]
	i.seen, i.writes = maps.Clone(p.seen), slices.Clone(p.writes)
	return nil
}

// get reads a key.
func (i *interaction) get(p place) error {
	item, err := i.txn.In(i.keyspace(p.side)).Get([]byte(p.key))
	want, found := i.seen[p]
	if err == brock.ErrKeyNotFound && !found {
		return nil
	} else if err != nil {
		return err
	}
	if got := string(assert.Must(item.Value())); got != want || !found {
		i.t.Fatalf("%+v is %.20q, want %.20q, %v, behind %s", p, got, want, found, showWrites(i.writes))
	}
	return nil
}

// walk reads the pairs of a range by an iterator, which does not see what is written meanwhile.
func (i *interaction) walk() error {
	lo, hi := drawBounds(i.r)
	in := write{place: place{i.r.IntN(2) == 0, lo}, hi: hi}
	it := i.txn.In(i.keyspace(in.side)).NewIterator(brock.IteratorOptions{Lower: bound(lo), Upper: bound(hi), Reverse: i.r.IntN(2) == 0})
	defer it.Close()
	want, got, gone := i.seen.within(in), state{}, len(i.points) > 0 && i.r.IntN(2) == 0
	for it.Rewind(); it.Valid(); it.Next() {
		if gone { // in the middle of the walk
			gone = false
			if err := i.rollback(); err != nil {
				return err
			}
		}
		got[place{in.side, string(it.Item().Key())}] = string(assert.Must(it.Item().ValueCopy(nil)))
	}
	if it.Err() == nil && !maps.Equal(got, want) {
		i.t.Fatalf("walked %+v\n got %s\nwant %s\nbehind %s", in, got.text(), want.text(), showWrites(i.writes))
	}
	return it.Err()
}

// seek asks for the first or the last key of a range.
func (i *interaction) seek() error {
	lo, hi := drawBounds(i.r)
	in := write{place: place{i.r.IntN(2) == 0, lo}, hi: hi}
	places := slices.DeleteFunc(slices.SortedFunc(maps.Keys(i.seen), comparePlaces), func(p place) bool { return !in.covers(p) })
	ask := i.txn.In(i.keyspace(in.side)).First
	if i.r.IntN(2) == 0 {
		ask = i.txn.In(i.keyspace(in.side)).Last
		slices.Reverse(places)
	}
	item, err := ask(bound(lo), bound(hi))
	switch {
	case err == brock.ErrKeyNotFound && len(places) == 0:
		return nil
	case err != nil:
		return err
	case len(places) == 0:
		i.t.Fatalf("found %q in %+v, which is empty, behind %s", item.Key(), in, showWrites(i.writes))
	}
	got, want := string(assert.Must(item.Value())), i.seen[places[0]]
	if string(item.Key()) != places[0].key || got != want {
		i.t.Fatalf("found %q = %.20q in %+v, want %+v = %.20q, behind %s", item.Key(), got, in, places[0], want, showWrites(i.writes))
	}
	return nil
}
