package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// content is what a transaction sees: values by keyspace (two of them) and key.
type content [2]map[string]string

func (c content) clone() content { return content{maps.Clone(c[0]), maps.Clone(c[1])} }

func (c content) show(i int) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(c[i])) {
		out = append(out, key+"="+c[i][key])
	}
	return strings.Join(out, " ")
}

// savedPoint is a savepoint and what the transaction saw there.
type savedPoint struct {
	brock.Savepoint
	saw content
}

// openWalk is an open iterator, and what it still has to show.
type openWalk struct {
	*brock.Iterator
	left []string
}

// savepointModel is a transaction, and what it should see.
type savepointModel struct {
	*rand.Rand
	t       *testing.T
	txn     [2]*brock.Txn
	sees    content
	valid   []savedPoint
	ended   []brock.Savepoint
	walk    openWalk // of the first keyspace
	spilled int      // rollbacks that were refused, as writes were in files
}

func (m *savepointModel) key() string { return storetest.DrawKey(m.Rand) }

func (m *savepointModel) write() {
	i, key := m.IntN(2), m.key()
	switch m.IntN(6) {
	case 0:
		assert.OK(m.t, m.txn[i].Delete([]byte(key)))
		delete(m.sees[i], key)
	case 1:
		hi := m.key()
		assert.OK(m.t, m.txn[i].DeleteRange([]byte(key), []byte(hi)))
		maps.DeleteFunc(m.sees[i], func(k, _ string) bool { return key <= k && k < hi })
	default:
		value := fmt.Sprint(m.IntN(1000))
		if m.IntN(4) == 0 {
			value = strings.Repeat(value, 300) // separated
		}
		assert.OK(m.t, m.txn[i].Set([]byte(key), []byte(value)))
		m.sees[i][key] = value
	}
}

func (m *savepointModel) rollback() {
	if len(m.ended) > 0 && m.IntN(3) == 0 {
		assert.Error(m.t, "a savepoint that has ended", m.txn[0].RollbackTo(m.ended[m.IntN(len(m.ended))]), brock.ErrInvalid)
	}
	if len(m.valid) == 0 {
		return
	}
	n := m.IntN(len(m.valid))
	switch err := m.txn[m.IntN(2)].RollbackTo(m.valid[n].Savepoint); {
	case err == nil:
		m.sees = m.valid[n].saw.clone()
		for _, s := range m.valid[n+1:] {
			m.ended = append(m.ended, s.Savepoint)
		}
		m.valid = m.valid[:n+1]
	case errors.Is(err, brock.ErrInvalid) && strings.Contains(err.Error(), "files"):
		m.spilled++ // nothing has changed
	default:
		m.t.Fatal(err)
	}
}

func (m *savepointModel) check() {
	for i, txn := range m.txn {
		assert.SameText(m.t, fmt.Sprint("keyspace ", i), storetest.ShowItems(txn.All()), m.sees.show(i))
	}
	key := m.key()
	want, ok := m.sees[1][key]
	if !ok {
		want = "-"
	}
	assert.Equal(m.t, key, storetest.Get(m.txn[1], key), want)
}

// stepWalk moves the open iterator: it shows what there was when it was rewound.
func (m *savepointModel) stepWalk() {
	if m.walk.Iterator == nil || m.IntN(8) == 0 {
		if m.walk.Iterator == nil {
			m.walk.Iterator = m.txn[0].NewIterator(brock.IteratorOptions{})
		}
		m.walk.Rewind()
		m.walk.left = strings.Fields(m.sees.show(0))
	} else if m.walk.Valid() {
		m.walk.left = m.walk.left[1:]
		m.walk.Next()
	}
	got, want := "", ""
	if m.walk.Valid() {
		got = string(m.walk.Item().Key()) + "=" + string(assert.Must(m.walk.Item().Value()))
	}
	assert.OK(m.t, m.walk.Err())
	if len(m.walk.left) > 0 {
		want = m.walk.left[0]
	}
	assert.Equal(m.t, "open iterator", got, want)
}

// TestSavepoints compares a transaction that rolls back at random, also nested and again, with maps.
// Iterators stay open meanwhile, items are kept, and writes go to files in some of the runs.
func TestSavepoints(t *testing.T) {
	t.Parallel()
	r := draw.Rand(t)
	refused := 0
	for run := range 60 {
		db := storetest.Open(t, brock.Options{})
		other := storetest.OpenKeyspace(t, db, "other")
		committed := content{map[string]string{}, map[string]string{}}
		for range 20 {
			key := storetest.DrawKey(r)
			assert.OK(t, db.Set([]byte(key), []byte("old")))
			assert.OK(t, other.Set([]byte(key), []byte("older")))
			committed[0][key], committed[1][key] = "old", "older"
		}
		o := brock.TxnOptions{Update: true}
		if run%3 == 0 {
			o.MaxMemory = 4 << 10
		}
		txn := assert.Must(db.Begin(t.Context(), o))
		m := &savepointModel{Rand: r, t: t, txn: [2]*brock.Txn{txn, txn.In(other)}, sees: committed.clone()}
		var kept []*brock.Item
		var bytes []string
		for range 150 {
			switch r.IntN(10) {
			case 0:
				m.valid = append(m.valid, savedPoint{m.txn[r.IntN(2)].Savepoint(), m.sees.clone()})
			case 1:
				m.rollback()
			case 2:
				m.check()
			case 3, 4:
				m.stepWalk()
			case 5:
				if it, err := txn.Get([]byte(m.key())); err == nil {
					kept, bytes = append(kept, it), append(bytes, string(assert.Must(it.Value())))
				}
			default:
				m.write()
			}
		}
		m.check()
		for i, it := range kept {
			assert.Equal(t, "an item that was kept", string(assert.Must(it.Value())), bytes[i])
		}
		refused += m.spilled
		want := m.sees
		if run%5 == 0 {
			want = committed
			txn.Discard()
		} else {
			assert.OK(t, txn.Commit())
		}
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for i, txn := range []*brock.Txn{txn, txn.In(other)} {
				assert.SameText(t, "committed", storetest.ShowItems(txn.All()), want.show(i))
			}
			return nil
		}))
		assert.OK(t, db.Verify(t.Context(), nil))
	}
	if refused == 0 {
		t.Error("no rollback met writes in files")
	}
}

// TestRollbackKeepsReads: what was read behind a savepoint is checked, and what was written is not.
func TestRollbackKeepsReads(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=1")
	begin := func(isolation brock.Isolation) *brock.Txn {
		return assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: isolation}))
	}
	txn := begin(brock.Serializable)
	assert.OK(t, storetest.Put(txn, "c=1"))
	s := txn.Savepoint()
	assert.Equal(t, "a", storetest.Get(txn, "a"), "1")
	assert.OK(t, txn.RollbackTo(s))
	storetest.Set(t, db, "a=2")
	assert.Error(t, "Commit", txn.Commit(), brock.ErrConflict)

	txn = begin(brock.SnapshotIsolation)
	s = txn.Savepoint()
	assert.OK(t, storetest.Put(txn, "b=2"))
	assert.OK(t, txn.RollbackTo(s))
	assert.OK(t, txn.RollbackTo(s))
	storetest.Set(t, db, "b=3")
	before := db.Version()
	assert.OK(t, txn.Commit())
	assert.Equal(t, "version after a commit of nothing", db.Version(), before)
	assert.Error(t, "RollbackTo", txn.RollbackTo(s), brock.ErrTxnDone)

	txn = begin(brock.Serializable)
	defer txn.Discard()
	for what, s := range map[string]brock.Savepoint{"of another": s, "zero": {}, "of an ended one": begin(0).Savepoint()} {
		assert.Error(t, what, txn.RollbackTo(s), brock.ErrInvalid)
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Error(t, "RollbackTo", txn.RollbackTo(txn.Savepoint()), brock.ErrReadOnly)
		return nil
	}))
	assert.Error(t, "RollbackTo", new(brock.Txn).RollbackTo(new(brock.Txn).Savepoint()), brock.ErrTxnDone)
}
