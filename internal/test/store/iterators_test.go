package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	truth "github.com/brockdb/brock/internal/test/model"
)

// TestIteratorsOfAnyStore walks stores of several keyspaces and kinds of keys, whose data lies in
// several memtables and runs: beside range deletes, rows of deletes, long histories, and the
// transaction's own writes. It moves in all ways, and checks which commits of others conflict with
// the ranges that were covered.
func TestIteratorsOfAnyStore(t *testing.T) {
	inRandomStores(t, 10, 5, func(s *randomStore) {
		s.fill()
		for _, txn := range s.open {
			s.look(txn, txn.ReadVersion(), nil)
			txn.Discard()
		}
		for i := 0; i < 6 && !s.t.Failed(); i++ {
			s.transaction()
		}
	})
}

// transaction looks at the store by a transaction of any kind.
func (s *randomStore) transaction() {
	x := s.space()
	o := brock.TxnOptions{Update: s.r.IntN(3) > 0, MaxMemory: []int64{0, 0, 1, 300, 3000}[s.r.IntN(5)]}
	at := s.db.Version()
	if s.kept && at > 1 && s.r.IntN(2) == 0 {
		at = at - s.r.Uint64N(min(at, 30))
		o.ReadAt = at
	}
	txn, err := s.db.Begin(s.t.Context(), o)
	if errors.Is(err, brock.ErrVersionGone) {
		return // keyspaces that were made later
	}
	assert.OK(s.t, err)
	defer txn.Discard()
	if !o.Update {
		s.look(txn, at, nil)
		return
	}
	own := &ownSpace{space: x}
	for range s.r.IntN(10) {
		own.write(s, txn)
	}
	s.look(txn, at, own)
	if s.t.Failed() {
		return
	}
	// Another commit comes between.
	other := s.write(x)
	s.commit(x, other)
	conflict := slices.ContainsFunc(own.covered, func(r truth.Range) bool { return x.m.ChangedSince(r, at) })
	if len(own.writes) == 0 {
		own.write(s, txn)
	}
	err = txn.Commit()
	switch {
	case err == nil && conflict:
		s.t.Errorf("no conflict of %s with %v", showWrite(other), own.covered)
	case errors.Is(err, brock.ErrConflict) && (conflict || own.filtered || x.long):
	case err != nil:
		s.t.Errorf("commit beside %s: %v; covered %.2000q", showWrite(other), err, own.covered)
	default:
		s.committed(x, txn.CommitVersion(), own.writes)
	}
}

func showWrite(w truth.Write) string {
	k := w.Keys()
	return fmt.Sprintf("a write of %.20q to %.20q", k.Lower, k.Upper)
}

// ownSpace is what a transaction has written to a keyspace, and what it has covered there.
type ownSpace struct {
	*space
	writes   []truth.Write
	covered  []truth.Range
	filtered bool // it has covered more, as filters were shown more
}

func (own *ownSpace) write(s *randomStore, txn *brock.Txn) {
	w := s.write(own.space)
	s.apply(txn.In(own.ks), w)
	own.writes = append(own.writes, w)
}

// look walks what the transaction, which reads version at, sees. own is nil if it has written
// nothing.
func (s *randomStore) look(txn *brock.Txn, at uint64, own *ownSpace) {
	for range 6 {
		x := s.space()
		if own != nil {
			x = own.space
		}
		w := s.walker(txn, x, at, own)
		for range 60 {
			if own != nil && s.r.IntN(15) == 0 {
				own.write(s, txn)
				w.trace = append(w.trace, "write")
			}
			w.step()
			if s.t.Failed() {
				s.t.Logf("options %.300q to %.300q, prefix %.30q, %+v", w.o.Lower, w.o.Upper, w.o.Prefix, brock.IteratorOptions{
					Reverse: w.o.Reverse, KeysOnly: w.o.KeysOnly, Prefetch: w.o.Prefetch, Limit: w.o.Limit, AllVersions: w.o.AllVersions, Since: w.o.Since})
				s.t.Logf("own %v, filter %v", own != nil, w.o.Filter != nil)
				s.t.Logf("trace %s", strings.Join(w.trace[max(0, len(w.trace)-30):], ", "))
				return
			}
		}
		w.finish()
		assert.OK(s.t, w.it.Close())
		s.gets(txn.In(x.ks), x, at, own)
	}
}

// gets reads keys of a keyspace one by one.
func (s *randomStore) gets(txn *brock.Txn, x *space, at uint64, own *ownSpace) {
	s.t.Helper()
	m := x.m.Clone()
	m.Forget(at)
	if own != nil {
		m.CommitAt(at+1, own.writes...)
	}
	var keys [][]byte
	for range s.r.IntN(100) {
		keys = append(keys, []byte(x.keys(s.r)))
	}
	i := 0
	for item, err := range txn.GetMany(keys) {
		assert.OK(s.t, err)
		s.got(item, m, string(keys[i]), at)
		i++
	}
	assert.Equal(s.t, "items of GetMany", i, len(keys))
	for range 5 {
		key := x.keys(s.r)
		keys = append(keys, []byte(key))
		item, err := txn.Get([]byte(key))
		if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
			s.t.Errorf("get %.40q: %v", key, err)
		}
		s.got(item, m, key, at)
		has, err := txn.Has([]byte(key))
		assert.OK(s.t, err)
		assert.Equal(s.t, "has", has, item != nil)
	}
	for i := 0; own != nil && i < len(keys); i++ {
		k := truth.Key(string(keys[i]))
		mine := func(w truth.Write) bool { return w.Keys().Contains(k.Lower) }
		if !slices.ContainsFunc(own.writes, mine) { // what it has written, it has not read
			own.covered = append(own.covered, k)
		}
	}
}

// got compares what was found under a key.
func (s *randomStore) got(item *brock.Item, m *truth.Store, key string, at uint64) {
	s.t.Helper()
	e, found := m.Get(key, at+1, uint64(s.now()))
	if !found || item == nil {
		assert.Equal(s.t, fmt.Sprintf("%.40q at %d is found", key, at), item != nil, found)
		return
	}
	if e.Version > at {
		e.Version = 0
	}
	v, err := item.Value()
	assert.OK(s.t, err)
	if string(item.Key()) != key || string(v) != e.Value || item.Version() != e.Version || item.Meta() != e.Meta {
		s.t.Errorf("%.40q: %.40q@%d=%.20q, want version %d, %.20q", key, item.Key(), item.Version(), v, e.Version, e.Value)
	}
}

// randomWalker moves an iterator, and the list that it must show.
type randomWalker struct {
	s     *randomStore
	it    *brock.Iterator
	o     brock.IteratorOptions
	r     truth.Range
	x     *space
	own   *ownSpace
	at    uint64
	list  []truth.Entry // in the order of the walk
	i     int           // in list; -1: at no item
	left  int
	span  *span // covered since the last seek
	trace []string
}

func (s *randomStore) walker(txn *brock.Txn, x *space, at uint64, own *ownSpace) *randomWalker {
	r := s.r
	w := &randomWalker{s: s, x: x, at: at, own: own, i: -1}
	o := brock.IteratorOptions{Reverse: r.IntN(2) == 0, AllVersions: s.kept && r.IntN(3) == 0, KeysOnly: r.IntN(4) == 0}
	if r.IntN(3) == 0 {
		w.r.Lower = x.keys(r)
		o.Lower = []byte(w.r.Lower)
	}
	if r.IntN(3) == 0 {
		w.r.Upper = x.keys(r)
		o.Upper = []byte(w.r.Upper)
	}
	if r.IntN(4) == 0 {
		p := x.keys(r)
		p = p[:1+r.IntN(min(len(p), 4))]
		o.Prefix = []byte(p)
		within := truth.Prefix(p)
		w.r.Lower = max(w.r.Lower, within.Lower)
		if within.Upper != "" && (w.r.Upper == "" || within.Upper < w.r.Upper) {
			w.r.Upper = within.Upper
		}
	}
	if r.IntN(4) == 0 {
		o.Since = r.Uint64N(at + 1)
	}
	if r.IntN(4) == 0 {
		o.Filter = func(key []byte, meta byte) bool { return (int(key[len(key)-1])+int(meta))%3 != 0 }
		if own != nil {
			own.filtered = true
		}
	}
	if r.IntN(4) == 0 {
		o.Limit = 1 + r.IntN(8)
	}
	if r.IntN(3) == 0 {
		o.Prefetch = -1 + r.IntN(8)
	}
	w.o = o
	w.it = txn.In(x.ks).NewIterator(o)
	return w
}

// show makes the list anew.
func (w *randomWalker) show() {
	m, at := &w.x.m, w.at
	if w.own != nil {
		m = m.Clone()
		m.Forget(at)
		at++
		m.CommitAt(at, w.own.writes...)
	}
	w.list = w.list[:0]
	w.left = w.o.Limit
	for e := range m.Scan(truth.Scan{Range: w.r, Reverse: w.o.Reverse, AllVersions: w.o.AllVersions, Since: w.o.Since}, at, uint64(w.s.now())) {
		if e.Version > w.at {
			e.Version = 0
		}
		if w.o.Filter == nil || w.o.Filter([]byte(e.Key), e.Meta) {
			w.list = append(w.list, e)
		}
	}
}

func (w *randomWalker) step() {
	r := w.s.r
	switch n := r.IntN(20); {
	case n == 0 || w.trace == nil:
		w.finish()
		w.trace = append(w.trace, "rewind")
		w.it.Rewind()
		w.show()
		w.i, w.span = 0, &span{lo: w.r.Lower, hi: w.r.Lower}
		if w.o.Reverse {
			w.span = &span{lo: w.r.Upper, hi: w.r.Upper}
			if w.r.Upper == "" {
				w.span = &span{lo: beyondAll, endless: true}
			}
		}
		w.moved(w.o.Reverse)
	case n < 3:
		w.seek(w.x.keys(r))
	case n < 15:
		w.trace = append(w.trace, "next")
		w.it.Next()
		if w.i < 0 {
			break
		}
		w.i++
		if w.left--; w.o.Limit > 0 && w.left <= 0 {
			w.i = -1 // what comes behind the limit is not covered
			break
		}
		w.moved(w.o.Reverse)
	default:
		w.trace = append(w.trace, "prev")
		w.it.Prev()
		if w.i < 0 {
			break
		}
		w.i--
		w.left++
		w.moved(!w.o.Reverse)
	}
	w.compare()
}

func (w *randomWalker) seek(key string) {
	if w.s.r.IntN(4) == 0 {
		key += "\x00"
	}
	w.finish()
	w.trace = append(w.trace, fmt.Sprintf("seek %.20q", key))
	w.it.Seek([]byte(key))
	w.show()
	from := key
	if w.o.Reverse {
		from += "\x00"
	}
	if from = max(from, w.r.Lower); w.r.Upper != "" {
		from = min(from, w.r.Upper)
	}
	w.span = &span{lo: from, hi: from}
	w.i = slices.IndexFunc(w.list, func(e truth.Entry) bool {
		return !w.o.Reverse && e.Key >= key || w.o.Reverse && e.Key <= key
	})
	w.moved(w.o.Reverse)
}

// span is the range of keys that a walk has covered.
type span struct {
	lo, hi  string
	endless bool // no hi
}

// beyondAll is greater than all keys.
var beyondAll = strings.Repeat("\xff", 100<<10)

// moved extends what is covered, after a move backward in keys or forward.
func (w *randomWalker) moved(back bool) {
	at := w.i >= 0 && w.i < len(w.list)
	switch c := w.span; {
	case at && back:
		c.lo = min(c.lo, w.list[w.i].Key)
	case at:
		c.hi = max(c.hi, w.list[w.i].Key+"\x00")
	case back:
		c.lo = w.r.Lower
	default:
		c.hi, c.endless = w.r.Upper, c.endless || w.r.Upper == ""
	}
}

// finish adds what is covered to what the transaction has read.
func (w *randomWalker) finish() {
	c := w.span
	if w.span = nil; c == nil || w.own == nil || !c.endless && c.lo >= c.hi {
		return
	}
	if c.endless {
		c.hi = ""
	}
	w.own.covered = append(w.own.covered, truth.Range{Lower: c.lo, Upper: c.hi})
}

// compare compares the item with the one in the list.
func (w *randomWalker) compare() {
	s := w.s
	s.t.Helper()
	if w.i >= len(w.list) {
		w.i = -1
	}
	assert.OK(s.t, w.it.Err())
	if w.it.Valid() != (w.i >= 0) {
		what := "nothing"
		if w.i >= 0 {
			what = fmt.Sprintf("%.40q@%d", w.list[w.i].Key, w.list[w.i].Version)
		} else if w.it.Valid() {
			what = fmt.Sprintf("not %.40q@%d", w.it.Item().Key(), w.it.Item().Version())
		}
		s.t.Errorf("valid %v, want %s", w.it.Valid(), what)
		return
	}
	if w.i < 0 {
		w.trace = append(w.trace, "-")
		return
	}
	item, e := w.it.Item(), w.list[w.i]
	w.trace = append(w.trace, fmt.Sprintf("%.20q@%d", item.Key(), item.Version()))
	if w.o.AllVersions && !e.Visible(uint64(s.now())) && item.Deleted() {
		e.Value, e.Expires, e.Deleted, e.Meta = "", 0, true, item.Meta() // it may have become a delete
	}
	expires := uint64(0)
	if at := item.ExpiresAt(); !at.IsZero() {
		expires = uint64(at.UnixMilli())
	}
	if string(item.Key()) != e.Key || item.Version() != e.Version || item.Meta() != e.Meta || item.Deleted() != e.Deleted ||
		expires != e.Expires || item.ValueSize() != int64(len(e.Value)) {
		s.t.Errorf("got %.40q@%d meta %d deleted %v expires %d size %d, want %.40q@%d meta %d deleted %v expires %d size %d",
			item.Key(), item.Version(), item.Meta(), item.Deleted(), expires, item.ValueSize(),
			e.Key, e.Version, e.Meta, e.Deleted, e.Expires, len(e.Value))
		return
	}
	if e.Deleted || s.r.IntN(3) == 0 {
		return
	}
	v, err := item.Value()
	if s.r.IntN(3) == 0 && err == nil {
		v, err = item.ValueCopy(nil)
	}
	if assert.OK(s.t, err); string(v) != e.Value {
		s.t.Errorf("%.40q@%d: value %.40q, want %.40q", e.Key, e.Version, v, e.Value)
	}
}
