// Package read tests gets, iterators and readahead.
package read

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// version is one version of a key in the model.
type version struct {
	key, value string
	version    uint64 // 0 = pending
	deleted    bool
	expires    time.Time
	ranged     bool // a delete of the keys key <= k < upper
	upper      string
}

// model is what a transaction must see: committed versions, newest first per
// key, and pending writes.
type model struct {
	committed []version
	ranges    []version // range deletes
	ownWrites
	now time.Time
}

// ownWrites is what a transaction has written.
type ownWrites struct {
	own     map[string]version
	deletes []version // range deletes
}

func (p *ownWrites) write(v version) {
	if !v.ranged {
		p.own[v.key] = v
		return
	}
	maps.DeleteFunc(p.own, func(k string, _ version) bool { return v.covers(k) })
	p.deletes = append(p.deletes, v)
}

func (v version) covers(key string) bool { return v.ranged && v.key <= key && key < v.upper }

// list is what an iterator must show, in the order in which it walks.
func (m *model) list(o *brock.IteratorOptions, at uint64) (out []version) {
	keys := map[string]bool{}
	for _, v := range m.committed {
		keys[v.key] = true
	}
	for k := range m.own {
		keys[k] = true
	}
	var sorted []string
	for k := range keys {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	for _, k := range sorted {
		inside := (o.Lower == nil || k >= string(o.Lower)) && (o.Upper == nil || k < string(o.Upper)) && strings.HasPrefix(k, string(o.Prefix))
		if !inside || o.Filter != nil && !o.Filter([]byte(k), 0) {
			continue
		}
		out = append(out, m.key(k, o, at)...)
	}
	if o.Reverse {
		slices.Reverse(out)
	}
	return out
}

func (m *model) key(k string, o *brock.IteratorOptions, at uint64) (out []version) {
	live := func(v version) bool { return !v.deleted && (v.expires.IsZero() || v.expires.After(m.now)) }
	p, mine := m.own[k]
	if mine {
		if !o.AllVersions {
			if live(p) {
				return []version{p}
			}
			return nil
		}
		out = append(out, p)
	}
	gone := !mine && slices.ContainsFunc(m.deletes, func(v version) bool { return v.covers(k) })
	if gone && !o.AllVersions {
		return nil
	}
	above := at + 1 // the newer version before the next
	for i := len(m.committed) - 1; i >= 0; i-- {
		v := m.committed[i]
		if v.key != k || v.version > at {
			continue
		}
		mark := uint64(0) // the newest range delete between both
		for _, d := range m.ranges {
			if d.covers(k) && d.version > v.version && d.version < above {
				mark = max(mark, d.version)
			}
		}
		if !o.AllVersions {
			if v.version > o.Since && mark == 0 && live(v) {
				return []version{v}
			}
			return nil
		}
		above = v.version
		if gone {
			out = append(out, version{key: k, deleted: true})
		} else if mark > o.Since {
			out = append(out, version{key: k, version: mark, deleted: true})
		}
		gone = false
		if v.version > o.Since {
			out = append(out, v)
		}
	}
	return out
}

func (v version) String() string {
	if v.deleted {
		return fmt.Sprintf("%s@%d!", v.key, v.version)
	}
	return fmt.Sprintf("%s@%d=%s", v.key, v.version, v.value)
}

func itemString(it *brock.Item) string {
	if it.Deleted() {
		return fmt.Sprintf("%s@%d!", it.Key(), it.Version())
	}
	v, err := it.Value()
	if err != nil {
		return err.Error()
	}
	if int64(len(v)) != it.ValueSize() {
		return fmt.Sprintf("%s: size %d of %q", it.Key(), it.ValueSize(), v)
	}
	return fmt.Sprintf("%s@%d=%s", it.Key(), it.Version(), v)
}

// fill commits random transactions and returns the model of them.
func fill(t testing.TB, db *brock.DB, r *rand.Rand, commits int, now time.Time) *model {
	m := &model{ownWrites: ownWrites{own: map[string]version{}}, now: now}
	for range commits {
		p := ownWrites{own: map[string]version{}}
		txn := db.NewTransaction(true)
		for range 1 + r.IntN(6) {
			p.write(m.randomWrite(t, txn, r))
		}
		assert.OK(t, txn.Commit())
		for _, v := range p.own {
			v.version = txn.CommitVersion()
			m.committed = append(m.committed, v)
		}
		for _, v := range p.deletes {
			v.version = txn.CommitVersion()
			m.ranges = append(m.ranges, v)
		}
	}
	return m
}

func (m *model) randomWrite(t testing.TB, txn *brock.Txn, r *rand.Rand) version {
	v := version{key: storetest.DrawKey(r)}
	if r.IntN(8) == 0 {
		v.ranged, v.upper = true, storetest.DrawKey(r)
		if v.upper <= v.key {
			v.key, v.upper = v.upper, v.key+"\x00"
		}
		assert.OK(t, txn.DeleteRange([]byte(v.key), []byte(v.upper)))
		return v
	}
	if r.IntN(4) == 0 {
		v.deleted = true
		assert.OK(t, txn.Delete([]byte(v.key)))
		return v
	}
	v.value = strings.Repeat(fmt.Sprint(r.IntN(1000)), r.IntN(5))
	e := brock.NewEntry([]byte(v.key), []byte(v.value))
	switch r.IntN(8) {
	case 0:
		v.expires = m.now.Add(-time.Second)
		e.WithExpiry(v.expires)
	case 1:
		v.expires = m.now.Add(time.Second)
		e.WithTTL(time.Second)
	}
	assert.OK(t, txn.SetEntry(e))
	return v
}

func randomOptions(r *rand.Rand, top uint64) brock.IteratorOptions {
	o := brock.IteratorOptions{Reverse: r.IntN(2) == 0, AllVersions: r.IntN(3) == 0, KeysOnly: r.IntN(4) == 0}
	if r.IntN(3) == 0 {
		o.Lower = []byte(storetest.DrawKey(r))
	}
	if r.IntN(3) == 0 {
		o.Upper = []byte(storetest.DrawKey(r))
	}
	if r.IntN(4) == 0 {
		o.Prefix = []byte(storetest.DrawKey(r)[:1+r.IntN(2)])
	}
	if r.IntN(4) == 0 {
		o.Since = r.Uint64N(top + 1)
	}
	if r.IntN(4) == 0 {
		o.Filter = func(key []byte, _ byte) bool { return key[len(key)-1] != 'b' }
	}
	if r.IntN(4) == 0 {
		o.Limit = 1 + r.IntN(5)
	}
	if r.IntN(3) == 0 {
		o.Prefetch = -1 + r.IntN(8)
	}
	return o
}

// Iterators with random options, over random histories and the writes of their own
// transaction, show what the model shows on random walks.
func TestIteratorAgreesWithModel(t *testing.T) {
	seed := draw.Seed(t)
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for round := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		t.Run(fmt.Sprintf("seed=%d/%d", seed, round), func(t *testing.T) { checkIterators(t, r) })
		if t.Failed() {
			return
		}
	}
}

func checkIterators(t *testing.T, r *rand.Rand) {
	now := time.UnixMilli(1_800_000_000_000)
	db := storetest.Open(t, brock.Options{
		Now:              func() time.Time { return now },
		Maintenance:      brock.Maintenance{IdleAfter: time.Hour}, // or history may be gone
		KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 6, Versions: brock.Retention{Versions: 1000}},
	})
	m := fill(t, db, r, 1+r.IntN(30), now)
	compacted := true // then what only AllVersions and ReadAt show may be gone
	switch r.IntN(4) {
	case 0:
		assert.OK(t, db.Flush(t.Context()))
	case 1:
		assert.OK(t, db.Compact(t.Context()))
	default:
		compacted = false
	}
	at := db.Version()
	if !compacted {
		at = 1 + r.Uint64N(at)
	}
	mayWrite := r.IntN(3) > 0
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: mayWrite, ReadAt: at, MaxMemory: []int64{0, 1, 200, 400}[r.IntN(4)]})
	assert.OK(t, err)
	defer txn.Discard()
	for range r.IntN(12) {
		if mayWrite {
			m.write(m.randomWrite(t, txn, r))
		}
	}
	for range 8 {
		o := randomOptions(r, at)
		o.AllVersions = o.AllVersions && !compacted
		it := txn.NewIterator(o)
		w := walker{t: t, it: it, o: o, m: m, at: at}
		for range 40 {
			if mayWrite && r.IntN(10) == 0 {
				m.write(m.randomWrite(t, txn, r))
			}
			w.step(r)
			if t.Failed() {
				t.Logf("options %+v", o)
				t.Logf("trace %s", strings.Join(w.trace, " "))
				return
			}
		}
		assert.OK(t, it.Close())
	}
}

// walker moves an iterator and the model's list together.
type walker struct {
	t     *testing.T
	it    *brock.Iterator
	o     brock.IteratorOptions
	m     *model
	at    uint64
	list  []version
	i     int // position in list, -1 = none
	left  int
	trace []string
}

func (w *walker) step(r *rand.Rand) {
	switch n := r.IntN(10); {
	case n == 0 || w.list == nil:
		w.trace = append(w.trace, "rewind")
		w.it.Rewind()
		w.list, w.i, w.left = w.m.list(&w.o, w.at), 0, w.o.Limit
	case n == 1:
		key := storetest.DrawKey(r)
		w.trace = append(w.trace, "seek("+key+")")
		w.it.Seek([]byte(key))
		w.list, w.left = w.m.list(&w.o, w.at), w.o.Limit
		w.i = slices.IndexFunc(w.list, func(v version) bool {
			if w.o.Reverse {
				return v.key <= key
			}
			return v.key >= key
		})
	case n < 7:
		w.trace = append(w.trace, "next")
		w.it.Next()
		if w.i >= 0 {
			w.i++
			if w.left--; w.o.Limit > 0 && w.left <= 0 {
				w.i = -1
			}
		}
	default:
		w.trace = append(w.trace, "prev")
		w.it.Prev()
		if w.i >= 0 {
			w.i--
			w.left++
		}
	}
	if w.i >= len(w.list) {
		w.i = -1
	}
	want, got := "nothing", "nothing"
	if w.i >= 0 {
		want = w.list[w.i].String()
	}
	if w.it.Valid() {
		got = itemString(w.it.Item())
	}
	w.trace = append(w.trace, got)
	assert.Equal(w.t, "item", got, want)
	assert.OK(w.t, w.it.Err())
	if w.list == nil {
		w.list = []version{}
	}
}

// Get, Has and Versions show what the model shows, too.
func TestGetAgreesWithModel(t *testing.T) {
	seed := draw.Seed(t)
	for round := range 100 {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		now := time.UnixMilli(1_800_000_000_000)
		db := storetest.Open(t, brock.Options{
			Now:              func() time.Time { return now },
			Maintenance:      brock.Maintenance{IdleAfter: time.Hour}, // or history may be gone
			KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 6, Versions: brock.Retention{Versions: 1000}},
		})
		m := fill(t, db, r, 1+r.IntN(20), now)
		at := 1 + r.Uint64N(db.Version())
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, ReadAt: at, MaxMemory: []int64{0, 1, 300}[r.IntN(3)]})
		assert.OK(t, err)
		for range 60 {
			if r.IntN(3) == 0 {
				m.write(m.randomWrite(t, txn, r))
			}
			key := storetest.DrawKey(r)
			want, got := "-", "-"
			if list := m.key(key, &brock.IteratorOptions{}, at); len(list) > 0 {
				want = list[0].String()
			}
			it, err := txn.Get([]byte(key))
			switch {
			case err == nil:
				got = itemString(it)
			case err != brock.ErrKeyNotFound:
				got = err.Error()
			}
			assert.Equal(t, fmt.Sprintf("seed %d round %d: %q", seed, round, key), got, want)
			has, err := txn.Has([]byte(key))
			assert.OK(t, err)
			assert.Equal(t, "Has", has, want != "-")
			var all []string
			for it, err := range txn.Versions([]byte(key)) {
				assert.OK(t, err)
				all = append(all, itemString(it))
			}
			checkEnds(t, txn, m, at, storetest.DrawKey(r), storetest.DrawKey(r), r.IntN(4))
			assert.Equal(t, "Versions", fmt.Sprint(all), strings.ReplaceAll(fmt.Sprint(m.key(key, &brock.IteratorOptions{AllVersions: true}, at)), "[]", "[]"))
		}
		txn.Discard()
	}
}

// checkEnds compares First and Last with the model; of the bounds, given says which count.
func checkEnds(t *testing.T, txn *brock.Txn, m *model, at uint64, lower, upper string, given int) {
	t.Helper()
	o := brock.IteratorOptions{}
	if given&1 > 0 {
		o.Lower = []byte(lower)
	}
	if given&2 > 0 {
		o.Upper = []byte(upper)
	}
	list := m.list(&o, at)
	for name, find := range map[string]func(lo, hi []byte) (*brock.Item, error){"First": txn.First, "Last": txn.Last} {
		want, got := "-", "-"
		if n := len(list); n > 0 && name == "First" {
			want = list[0].String()
		} else if n > 0 {
			want = list[n-1].String()
		}
		if it, err := find(o.Lower, o.Upper); err == nil {
			got = itemString(it)
		} else {
			assert.Error(t, name, err, brock.ErrKeyNotFound)
		}
		assert.Equal(t, fmt.Sprintf("%s in %q-%q", name, o.Lower, o.Upper), got, want)
	}
}

// Iterators skip long histories, in both directions. After 16 older versions of a
// key an iterator seeks past the rest.
func TestLongHistories(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	const n = 10 * 16
	keys := []string{"a", "b", "b\x00", "c"}
	for v := range n {
		for _, k := range keys {
			assert.OK(t, db.Set([]byte(k), fmt.Appendf(nil, "%d", v)))
		}
		if v == n/2 {
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	for _, v := range []int{0, 1, n / 2, n - 1} {
		txn, err := db.Begin(t.Context(), brock.TxnOptions{ReadAt: uint64(len(keys) * (v + 1))})
		assert.OK(t, err)
		want := fmt.Sprintf("a=%d b=%d b\x00=%d c=%d", v, v, v, v)
		assert.Equal(t, "forward", storetest.ShowItems(txn.All()), want)
		assert.Equal(t, "reverse", storetest.ShowItems(txn.Items(brock.IteratorOptions{Reverse: true})), fmt.Sprintf("c=%d b\x00=%d b=%d a=%d", v, v, v, v))
		it := txn.NewIterator(brock.IteratorOptions{})
		it.Seek([]byte("b"))
		for range 3 {
			assert.Equal(t, "b", itemString(it.Item()), fmt.Sprintf("b@%d=%d", len(keys)*v+2, v))
			it.Next()
			assert.Equal(t, "after b", itemString(it.Item()), fmt.Sprintf("b\x00@%d=%d", len(keys)*v+3, v))
			it.Prev()
		}
		assert.OK(t, it.Close())
		txn.Discard()
	}
}

func TestSequencesCloseThemselves(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=2", "c=3")
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		var kept *brock.Item
		for it := range txn.Range([]byte("b"), nil) {
			assert.Equal(t, "first", string(it.Key()), "b")
			kept = it
			break
		}
		if _, err := kept.Value(); err == nil {
			t.Error("an iterator is left open: its item has a value")
		}
		assert.Equal(t, "Range", storetest.ShowItems(txn.Range([]byte("a"), []byte("c"))), "a=1 b=2")
		assert.Equal(t, "Prefix", storetest.ShowItems(txn.Prefix([]byte("c"))), "c=3")
		return nil
	}))
	assert.Equal(t, "pinned", storetest.IsPinned(db), false)
}

// A read error ends the loop and shows in Err. It never looks like the end.
func TestIteratorErrorsAreNotLost(t *testing.T) {
	const n = 10_000
	for _, update := range []bool{false, true} {
		faults := faultfs.New(vfs.NewMem(), faultfs.Options{})
		noMap := faultfs.Fault{Kinds: faultfs.Map, Times: faultfs.Always} // so that files are read chunk by chunk
		faults.Inject(noMap)
		db := storetest.Open(t, brock.Options{Dir: "/", FS: faults})
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for i := range n {
				if err := txn.Set(fmt.Appendf(nil, "k%05d", i), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		}))
		assert.OK(t, db.Flush(t.Context()))
		txn := db.NewTransaction(update)
		defer txn.Discard()
		it := txn.NewIterator(brock.IteratorOptions{})
		walk := func() (n int) {
			for ; it.Valid(); it.Next() {
				n++
			}
			return n
		}
		it.Rewind()
		faults.Inject(faultfs.Fault{Kinds: faultfs.Read, Times: faultfs.Always})
		if got := walk(); got == 0 || got == n {
			t.Errorf("update %v: %d items were read", update, got)
		}
		assert.Error(t, "Err", it.Err(), faultfs.ErrIO)
		assert.Error(t, "Items", assert.LastError(txn.Items(brock.IteratorOptions{Reverse: true})), faultfs.ErrIO)
		_, err := txn.Get([]byte("k09999"))
		assert.Error(t, "Get", err, faultfs.ErrIO)
		faults.Heal()
		faults.Inject(noMap)
		it.Rewind()
		assert.Equal(t, "items when all can be read", walk(), n)
		assert.OK(t, it.Close())
	}
}

func TestEmptyValueIsFound(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	txn := db.NewTransaction(true)
	defer txn.Discard()
	assert.OK(t, txn.Set([]byte("k"), nil))
	check := func(txn *brock.Txn) {
		it, err := txn.Get([]byte("k"))
		assert.OK(t, err)
		v, err := it.Value()
		assert.OK(t, err)
		c, err := it.ValueCopy(nil)
		assert.OK(t, err)
		if v == nil || c == nil || len(v)+len(c) != 0 {
			t.Errorf("value %v, copy %v; want empty and not nil", v, c)
		}
	}
	check(txn)
	assert.OK(t, txn.Commit())
	assert.OK(t, db.View(func(txn *brock.Txn) error { check(txn); return nil }))
	v, err := db.Get([]byte("k"))
	assert.OK(t, err)
	if v == nil || !bytes.Equal(v, []byte{}) {
		t.Errorf("DB.Get gives %v", v)
	}
}

// Keys that differ only behind their first 128 bytes: a walk that skips what a range delete hides
// passes no newer key.
func TestWalksOverDeletedLongKeys(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: -1, Versions: brock.Retention{Age: time.Hour}}})
	key := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte("l"), 200), "%05d", i) }
	const n = 1500
	batch := db.NewBatch()
	for i := range n {
		assert.OK(t, batch.Set(key(i), storetest.RandomBytes(i, 3000)))
	}
	assert.Must(batch.Commit(t.Context(), 0))
	assert.OK(t, db.DeleteRange(key(100), key(n-100)))
	assert.OK(t, db.Set(key(n/2), []byte("newer")))
	assert.OK(t, db.Compact(t.Context())) // the history stays
	for _, reverse := range []bool{false, true} {
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			found, newer := 0, 0
			for item, err := range txn.Items(brock.IteratorOptions{KeysOnly: true, Reverse: reverse}) {
				assert.OK(t, err)
				if found++; bytes.Equal(item.Key(), key(n/2)) {
					newer++
				}
			}
			assert.Equal(t, fmt.Sprint("keys, reverse ", reverse), found, 201)
			assert.Equal(t, fmt.Sprint("newer keys, reverse ", reverse), newer, 1)
			return nil
		}))
	}
}
