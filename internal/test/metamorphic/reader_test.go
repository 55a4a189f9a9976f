package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/model"
)

// openIterator is an iterator of a read-only transaction, and the list of what it
// must show.
type openIterator struct {
	it   *brock.Iterator
	o    brock.IteratorOptions
	want []model.Entry
	at   int // index of the item, len(want) at the end
	left int // of Limit
}

func (w *world) beginReader() {
	if len(w.readers) == 3 {
		return
	}
	o := brock.TxnOptions{}
	at := w.m.Last()
	if w.rng.IntN(3) == 0 && at > 5 {
		at -= uint64(w.rng.IntN(5))
		o.ReadAt = at
	}
	txn, err := w.db.Begin(context.Background(), o)
	if errors.Is(err, brock.ErrVersionGone) {
		return // readAt checks whether the version may be gone
	}
	w.must("begin", err)
	w.note("read at %d", at)
	w.readers = append(w.readers, &openTxn{txn: txn, at: at})
}

func (w *world) readerStep() {
	if len(w.readers) == 0 {
		return
	}
	x := pick(w.rng, w.readers...)
	switch n := w.rng.IntN(10); {
	case n == 0:
		w.note("reader at %d: all", x.at)
		w.sameState("reader", x.txn, x.at)
	case n == 1:
		w.history(x)
	case n == 2:
		w.getMany(x)
	case n == 3:
		w.readEnds(x)
	case n < 6 && len(x.its) < 3 || len(x.its) == 0:
		w.newIterator(x)
	default:
		w.iteratorStep(x, pick(w.rng, x.its...))
	}
}

func (w *world) getMany(x *openTxn) {
	w.note("reader at %d: get many", x.at)
	var keys [][]byte
	for range w.rng.IntN(12) {
		keys = append(keys, []byte(w.key()))
	}
	i := 0
	for item, err := range x.txn.GetMany(keys) {
		w.must("get many", err)
		e, found := w.m.Get(string(keys[i]), x.at, uint64(w.now))
		switch {
		case found && w.hazy(e):
		case found != (item != nil):
			w.fatalf("get many at %d: %.40q found %v, want %v", x.at, keys[i], item != nil, found)
		case found:
			w.same("get many", item, e)
		}
		i++
	}
	if i != len(keys) {
		w.fatalf("get many: %d of %d", i, len(keys))
	}
}

// readEnds asks a reader for the first and the last item of a range.
func (w *world) readEnds(x *openTxn) {
	o, r := w.bounds()
	if len(o.Prefix) > 0 {
		return
	}
	w.note("reader at %d: first and last %.10q-%.10q", x.at, r.Lower, r.Upper)
	for _, reverse := range []bool{false, true} {
		find := x.txn.First
		if reverse {
			find = x.txn.Last
		}
		item, err := find(o.Lower, o.Upper)
		want := model.Entry{}
		for e := range w.m.Scan(model.Scan{Range: r, Reverse: reverse}, x.at, uint64(w.now)) {
			if w.hazy(e) {
				return
			}
			want = e
			break
		}
		switch {
		case want.Version != 0 && err == nil:
			w.same("first or last", item, want)
		case want.Version != 0 || !errors.Is(err, brock.ErrKeyNotFound):
			w.fatalf("first or last at %d, reverse %v: %v, want %.40q version %d", x.at, reverse, err, want.Key, want.Version)
		}
	}
}

func (w *world) newIterator(x *openTxn) {
	o, r := w.bounds()
	if w.rng.IntN(4) == 0 {
		o.Since = x.at - min(x.at, uint64(w.rng.IntN(20)))
	}
	it := &openIterator{o: o}
	for e := range w.m.Scan(model.Scan{Range: r, Reverse: o.Reverse, Since: o.Since}, x.at, uint64(w.now)) {
		if w.hazy(e) {
			return
		}
		it.want = append(it.want, e)
	}
	if w.rng.IntN(4) == 0 {
		filter := func(key []byte, meta byte) bool { return (len(key)+int(meta))%3 != 0 }
		it.o.Filter = filter
		it.want = slices.DeleteFunc(it.want, func(e model.Entry) bool { return !filter([]byte(e.Key), e.Meta) })
	}
	w.note("reader at %d: iterator %.10q-%.10q reverse %v limit %d since %d prefetch %d", x.at, r.Lower, r.Upper, o.Reverse, o.Limit, o.Since, o.Prefetch)
	it.it = x.txn.NewIterator(it.o)
	it.at = len(it.want)
	clear(o.Lower) // the iterator has copied them, or needs them no more
	clear(o.Upper)
	clear(o.Prefix)
	x.its = append(x.its, it)
	w.rewind(it)
}

func (w *world) rewind(it *openIterator) {
	it.it.Rewind()
	it.at, it.left = 0, it.o.Limit
	w.atItem("rewind", it)
}

// atItem compares the item that the iterator is at.
func (w *world) atItem(what string, it *openIterator) {
	w.t.Helper()
	valid := it.at < len(it.want) && (it.o.Limit == 0 || it.left > 0)
	if it.it.Valid() != valid || it.it.Err() != nil {
		w.fatalf("%s: valid %v, %v, want %v", what, it.it.Valid(), it.it.Err(), valid)
	}
	if valid {
		w.same(what, it.it.Item(), it.want[it.at])
	} else {
		it.at = len(it.want)
	}
}

func (w *world) iteratorStep(x *openTxn, it *openIterator) {
	switch n := w.rng.IntN(10); {
	case n == 0:
		w.note("reader at %d: rewind", x.at)
		w.rewind(it)
	case n < 3:
		k := w.key()
		w.note("reader at %d: seek %.10q", x.at, k)
		it.it.Seek([]byte(k))
		it.left = it.o.Limit
		it.at = slices.IndexFunc(it.want, func(e model.Entry) bool {
			return !it.o.Reverse && e.Key >= k || it.o.Reverse && (e.Key <= k || k == "")
		})
		if it.at < 0 {
			it.at = len(it.want)
		}
		w.atItem("seek", it)
	case n == 3 && it.at < len(it.want) && it.o.Limit == 0:
		w.note("reader at %d: back", x.at)
		for range 1 + w.rng.IntN(6) {
			it.it.Prev()
			switch it.at {
			case len(it.want): // an iterator at no item stays there
			case 0:
				it.at = len(it.want)
			default:
				it.at--
			}
			w.atItem("back", it)
		}
	default:
		n := 1 + w.rng.IntN(8)
		w.note("reader at %d: next %d", x.at, n)
		for range n {
			it.it.Next()
			if it.at < len(it.want) {
				it.at++
				it.left--
			}
			w.atItem("next", it)
		}
	}
}

// history compares all versions of some keys with the model. The store may show only
// versions of the model, and must show those that have to be retained.
func (w *world) history(x *openTxn) {
	o, r := w.bounds()
	o.Limit, o.Prefetch, o.AllVersions = 0, 0, true
	if w.rng.IntN(2) == 0 {
		o.Since = x.at - min(x.at, uint64(w.rng.IntN(20)))
	}
	w.note("reader at %d: history %.10q-%.10q reverse %v since %d", x.at, r.Lower, r.Upper, o.Reverse, o.Since)
	all := slices.Collect(w.m.Scan(model.Scan{Range: r, Reverse: o.Reverse, AllVersions: true, Since: o.Since}, x.at, uint64(w.now)))
	required := w.required(x.at)
	i := 0
	skip := func(until func(model.Entry) bool) {
		for ; i < len(all) && !until(all[i]); i++ {
			if e := all[i]; required(e) {
				w.fatalf("history at %d: %.40q version %d, which has to be retained, is missing", x.at, e.Key, e.Version)
			}
		}
	}
	for item, err := range x.txn.Items(o) {
		w.must("history", err)
		key, version := string(item.Key()), item.Version()
		place := version // of the item in all
		if item.Deleted() && w.m.RangeDeletedAt(key, version) {
			place = w.newestMark(all, key, version)
		}
		skip(func(e model.Entry) bool { return e.Key == key && e.Version == place })
		if i == len(all) {
			w.fatalf("history at %d: %.40q version %d is out of place", x.at, key, version)
		}
		e := all[i]
		if place != version && !required(e) {
			e.Version = version
		}
		if !e.Deleted && item.Deleted() && e.Expires != 0 && int64(e.Expires) <= w.latest {
			e = model.Entry{Key: e.Key, Version: e.Version, Deleted: true} // an expired entry may have become a delete
		}
		if !e.Deleted && item.Deleted() && w.m.RangeDeletedAt(e.Key, e.Version) && !required(e) {
			// The value was replaced and is gone. What remains is the range delete
			// that its transaction wrote before it.
			e = model.Entry{Key: e.Key, Version: e.Version, Deleted: true}
		}
		w.same(fmt.Sprintf("history at %d", x.at), item, e)
		i++
	}
	skip(func(model.Entry) bool { return false })
}

// newestMark returns the version at which the history has the range delete of a version.
// Of several range deletes between two versions of a key the newest is shown. If that is
// gone, an older one is shown in its place.
func (w *world) newestMark(all []model.Entry, key string, version uint64) uint64 {
	nearest := model.Entry{Version: math.MaxUint64}
	for _, e := range all {
		if e.Key == key && e.Version >= version && e.Version < nearest.Version {
			nearest = e
		}
	}
	if nearest.Deleted && w.m.RangeDeletedAt(key, nearest.Version) {
		return nearest.Version
	}
	return version
}

// required returns which entries must be retained: those that a reader at a version
// finds, and the newest of each key down to one that ends its history.
func (w *world) required(at uint64) func(model.Entry) bool {
	n := max(1, w.o.KeyspaceDefaults.Versions.Versions)
	return func(e model.Entry) bool {
		if found, ok := w.m.Get(e.Key, at, uint64(w.latest)); ok && found.Version == e.Version {
			return true
		}
		for i, x := range w.m.Versions(e.Key, w.m.Last()) {
			switch {
			case i == n, x.Deleted, x.Expires != 0 && int64(x.Expires) <= w.latest:
				return false
			case x.Version == e.Version:
				return true
			case x.Latest:
				return false
			}
		}
		return false
	}
}

// readAt reads an older version. It must be as it was, or may be gone if it need not
// be retained.
func (w *world) readAt() {
	if w.m.Last() < 2 {
		return
	}
	at := w.m.Last() - uint64(w.rng.IntN(int(min(w.m.Last()-1, 40))))
	err := w.db.ViewContext(context.Background(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
		w.note("read at %d of %d", at, w.m.Last())
		w.sameState("read at", txn, at)
		return nil
	})
	if !errors.Is(err, brock.ErrVersionGone) {
		w.must("read at", err)
		return
	}
	w.note("version %d of %d is gone", at, w.m.Last())
	if age := w.o.KeyspaceDefaults.Versions.Age; age > 0 && w.visibleSince(at) >= w.now-age.Milliseconds() && !w.wentBack {
		w.fatalf("version %d is gone, was the newest %d ms ago", at, w.now-w.visibleSince(at))
	}
	err = w.db.ViewContext(context.Background(), brock.TxnOptions{ReadAt: w.db.Version() + 1}, func(*brock.Txn) error { return nil })
	if !errors.Is(err, brock.ErrInvalid) {
		w.fatalf("read at a version to come: %v", err)
	}
}

// visibleSince returns the last time at which version at was the newest.
func (w *world) visibleSince(at uint64) int64 {
	for v := at + 1; v <= w.m.Last(); v++ {
		if w.times[v] != 0 {
			return w.times[v]
		}
	}
	return w.now
}
