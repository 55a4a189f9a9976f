package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	truth "github.com/brockdb/brock/internal/test/model"
)

// TestTransactionsOfAnyStore keeps transactions of all kinds, and followers, open beside whatever
// happens to such stores: others write, keyspaces come, change and go, time passes, data is
// flushed, compacted, collected, copied and encrypted anew. Each transaction sees what it saw, and
// its commit is refused if it must be, and only then.
func TestTransactionsOfAnyStore(t *testing.T) {
	steps := 120
	if *storetest.Every {
		steps = 250
	}
	inRandomStores(t, 4, 2, func(s *randomStore) {
		s.kept = s.kept && s.r.IntN(2) == 0
		p := &company{copier: &copier{randomStore: s}}
		for i := 0; i < steps && !s.t.Failed(); i++ {
			p.step()
		}
		p.endAll()
	})
}

// company is a store with open transactions.
type company struct {
	*copier
	gone     []*space // keyspaces that were dropped
	txns     []*member
	follower *brock.DB
	behind   *backBench // a transaction of the follower
}

// member is an open transaction, and the model of it in each keyspace that it has addressed.
type member struct {
	txn    *brock.Txn
	o      brock.TxnOptions
	at     uint64
	now    uint64 // its time for expiry
	fixed  bool   // it has read the clock
	spaces map[*space]*truth.Txn
	wrote  map[*space][]truth.Write
}

// backBench is a read-only transaction of a follower.
type backBench struct {
	txn    *brock.Txn
	now    uint64
	spaces map[*space]*brock.Keyspace
	states map[*space]*truth.Store
}

func (p *company) step() {
	switch n := p.r.IntN(100); {
	case n < 12:
		p.begin()
	case n < 62:
		p.use()
	case n < 72:
		p.end()
	case n < 80:
		p.fill()
	case n < 83:
		p.pass()
	case n < 86:
		p.dropOne()
	case n < 88:
		p.change()
	case n == 88:
		p.retainMore()
	case n < 94:
		p.work()
	case n < 98:
		p.followOn()
	default:
		p.endAll()
		p.copier.step()
	}
}

// begin begins a transaction of any kind.
func (p *company) begin() {
	if len(p.txns) == 5 {
		return
	}
	o := brock.TxnOptions{
		Update: p.r.IntN(4) > 0, Isolation: brock.Isolation([]int{0, 0, 1, 2}[p.r.IntN(4)]),
		MaxMemory: []int64{0, 0, 1, 300, 3000}[p.r.IntN(5)],
	}
	at := p.db.Version()
	if at > 1 && p.r.IntN(4) == 0 {
		at -= p.r.Uint64N(min(at, 20))
		o.ReadAt = at
	}
	txn, err := p.db.Begin(p.t.Context(), o)
	if errors.Is(err, brock.ErrVersionGone) {
		return
	}
	assert.OK(p.t, err)
	m := &member{txn: txn, o: o, at: at, now: uint64(p.now()), spaces: map[*space]*truth.Txn{}, wrote: map[*space][]truth.Write{}}
	p.note("begin %d at %d: update %v, isolation %d, memory %d", len(p.txns), at, o.Update, o.Isolation, o.MaxMemory)
	p.txns = append(p.txns, m)
	// It reads the clock when it first meets an entry that expires.
	for _, x := range p.spaces {
		for e := range x.m.Scan(truth.Scan{}, at, m.now) {
			if e.Expires == 0 || p.in(m, x) == nil {
				continue
			}
			m.spaces[x].Get(e.Key, m.now)
			found, err := txn.In(x.ks).Has([]byte(e.Key))
			assert.OK(p.t, err)
			assert.Equal(p.t, "has what expires later", found, true)
			m.fixed = true
			return
		}
	}
}

// in returns the transaction as it addresses a keyspace; nil if it can't read that.
func (p *company) in(m *member, x *space) *brock.Txn {
	txn := m.txn.In(x.ks)
	_, err := txn.Has([]byte("none"))
	switch {
	case errors.Is(err, brock.ErrVersionGone) && m.o.ReadAt != 0 && m.spaces[x] == nil:
		return nil
	case errors.Is(err, brock.ErrKeyspaceNotFound) && slices.Contains(p.gone, x):
		return nil // or it was made after the transaction had begun
	}
	assert.OK(p.t, err)
	if m.spaces[x] == nil {
		m.spaces[x] = x.m.BeginAt(m.at)
	}
	m.spaces[x].Get("none", m.now)
	return txn
}

// use has a transaction read or write.
func (p *company) use() {
	if len(p.txns) == 0 {
		return
	}
	i := p.r.IntN(len(p.txns))
	m := p.txns[i]
	if !m.fixed {
		m.now = uint64(p.now())
	}
	all := append(slices.Clone(p.spaces), p.gone...)
	x := all[p.r.IntN(len(all))]
	txn := p.in(m, x)
	if txn == nil {
		return
	}
	what := fmt.Sprintf("%d at %d in %q", i, m.at, x.name())
	switch n := p.r.IntN(10); {
	case n < 4 && m.o.Update:
		p.write(what, m, x, txn)
	case n < 7:
		p.get(what, m, x, txn)
	default:
		p.scan(what, m, x, txn)
	}
}

func (p *company) write(what string, m *member, x *space, txn *brock.Txn) {
	w := p.randomStore.write(x)
	p.note("%s: %s", what, showWrite(w))
	p.apply(txn, w)
	m.spaces[x].Write(w)
	m.wrote[x] = append(m.wrote[x], w)
}

func (p *company) get(what string, m *member, x *space, txn *brock.Txn) {
	key := x.keys(p.r)
	p.note("%s: get %.20q", what, key)
	want, found := m.spaces[x].Get(key, m.now)
	if p.r.IntN(3) == 0 {
		i := 0
		for item, err := range txn.GetMany([][]byte{[]byte(key), []byte(key)}) {
			assert.OK(p.t, err)
			p.same(what, item, want, found)
			i++
		}
		assert.Equal(p.t, what+": items", i, 2)
		return
	}
	item, err := txn.Get([]byte(key))
	if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
		assert.OK(p.t, err)
	}
	p.same(what, item, want, found)
}

// same compares an item, or nil, with what the model has found.
func (p *company) same(what string, item *brock.Item, want truth.Entry, found bool) {
	p.t.Helper()
	if found != (item != nil) {
		p.t.Errorf("%s: found %v, want %v: %.20q@%d", what, item != nil, found, want.Key, want.Version)
	}
	if p.t.Failed() || !found {
		return
	}
	value, err := item.Value()
	assert.OK(p.t, err)
	if string(item.Key()) != want.Key || item.Version() != want.Version || string(value) != want.Value || item.Meta() != want.Meta {
		p.t.Errorf("%s: %.20q@%d=%.20q, want %.20q@%d=%.20q", what, item.Key(), item.Version(), value, want.Key, want.Version, want.Value)
	}
}

func (p *company) scan(what string, m *member, x *space, txn *brock.Txn) {
	r := truth.Range{Lower: x.keys(p.r), Upper: x.keys(p.r)}
	if r.Empty() || p.r.IntN(3) == 0 {
		r = truth.Range{}
	}
	o := brock.IteratorOptions{Reverse: p.r.IntN(2) == 0, KeysOnly: p.r.IntN(4) == 0, Limit: p.r.IntN(3) * p.r.IntN(5), Prefetch: p.r.IntN(3) * 2}
	if r.Lower != "" {
		o.Lower, o.Upper = []byte(r.Lower), []byte(r.Upper)
	}
	p.note("%s: scan %.20q to %.20q, reverse %v, limit %d", what, r.Lower, r.Upper, o.Reverse, o.Limit)
	it := txn.NewIterator(o)
	defer func() { assert.OK(p.t, it.Close()) }()
	it.Rewind()
	for e := range m.spaces[x].Scan(r, o.Reverse, o.Limit, m.now) {
		if !it.Valid() {
			assert.OK(p.t, it.Err())
			p.t.Errorf("%s: scan ends before %.20q@%d", what, e.Key, e.Version)
			return
		}
		if p.same(what+": scan", it.Item(), e, true); p.t.Failed() {
			return
		}
		it.Next()
	}
	if it.Valid() {
		p.t.Errorf("%s: scan goes on to %.20q@%d", what, it.Item().Key(), it.Item().Version())
	}
}

// end commits or discards a transaction.
func (p *company) end() {
	if len(p.txns) == 0 {
		return
	}
	i := p.r.IntN(len(p.txns))
	m := p.txns[i]
	p.txns = slices.Delete(p.txns, i, i+1)
	if p.r.IntN(4) == 0 {
		m.txn.Discard()
		return
	}
	conflict, long, dropped := p.refuses(m)
	err := m.txn.Commit()
	p.note("commit of %d at %d: %v", i, m.at, err)
	switch {
	case len(m.wrote) == 0:
		assert.OK(p.t, err)
	case dropped:
		if !errors.Is(err, brock.ErrKeyspaceNotFound) && !((conflict || long) && errors.Is(err, brock.ErrConflict)) {
			p.t.Errorf("commit to a dropped keyspace: %v", err)
		}
	case errors.Is(err, brock.ErrConflict):
		if !conflict && !long {
			p.t.Errorf("the model sees no conflict: %v", err)
		}
	case err != nil || conflict:
		p.t.Errorf("commit: %v, the model sees a conflict: %v", err, conflict)
	default:
		version := m.txn.CommitVersion()
		p.times[version] = p.now()
		for _, x := range p.spaces {
			x.m.CommitAt(version, m.wrote[x]...)
		}
	}
}

// refuses reports whether the commit of m must be refused because of a conflict, or may be because
// it has read long keys, of which ranges are noted, and whether it has written to a keyspace that
// was dropped.
func (p *company) refuses(m *member) (conflict, long, dropped bool) {
	for x, txn := range m.spaces {
		away := slices.Contains(p.gone, x)
		dropped = dropped || away && len(m.wrote[x]) > 0
		switch m.o.Isolation {
		case brock.Serializable:
			conflict = conflict || away || txn.Stale()
			long = long || x.long
		case brock.SnapshotIsolation:
			conflict = conflict || slices.ContainsFunc(m.wrote[x], func(w truth.Write) bool { return x.m.ChangedSince(w.Keys(), m.at) })
		}
	}
	return conflict, long, dropped
}

// pass lets time pass. Transactions that have not read the clock yet are ended.
func (p *company) pass() {
	d := time.Duration(p.r.IntN(4000)) * time.Millisecond
	p.note("%v pass", d)
	p.endReaders() // of fill
	p.txns = slices.DeleteFunc(p.txns, func(m *member) bool {
		if !m.fixed {
			m.txn.Discard()
		}
		return !m.fixed
	})
	p.clock.Add(d)
}

func (p *company) dropOne() {
	before := slices.Clone(p.spaces)
	p.drop()
	for _, x := range before {
		if !slices.Contains(p.spaces, x) {
			p.gone = append(p.gone, x)
		}
	}
}

// retainMore changes what a named keyspace retains.
func (p *company) retainMore() {
	if len(p.spaces) > 1 && !p.kept {
		p.retainIn(p.spaces[1+p.r.IntN(len(p.spaces)-1)])
	}
}

// work does what background work does, and makes copies.
func (p *company) work() {
	ctx := p.t.Context()
	switch p.r.IntN(7) {
	case 0:
		p.note("flush")
		assert.OK(p.t, p.db.Flush(ctx))
	case 1:
		p.note("compact")
		assert.OK(p.t, p.db.Compact(ctx))
	case 2:
		p.note("reclaim")
		_, err := p.db.Reclaim(ctx)
		assert.OK(p.t, err)
	case 3:
		p.note("checkpoint beside transactions")
		o := p.copyOptions()
		assert.OK(p.t, p.db.Checkpoint(ctx, o.Dir))
		p.compareCopy("checkpoint", o, p.spaces, p.kept)
	case 4:
		p.note("backup beside transactions")
		_, err := p.db.Backup(ctx, io.Discard, brock.BackupOptions{})
		assert.OK(p.t, err)
	case 5:
		if p.o.Keys != nil {
			p.note("rotate beside transactions")
			assert.OK(p.t, p.db.RotateKey(ctx, brock.RotateOptions{Master: p.r.IntN(2) == 0}))
		}
	default:
		p.note("verify")
		assert.OK(p.t, p.db.Verify(ctx, nil))
	}
}

// followOn goes on with a follower, which has an open transaction.
func (p *company) followOn() {
	assert.OK(p.t, p.db.Sync(p.t.Context()))
	if p.follower == nil {
		p.note("follower")
		o := p.o
		o.Mode = brock.Follow
		f, err := brock.Open(o)
		assert.OK(p.t, err)
		p.follower = f
	} else {
		p.note("refresh")
		_, err := p.follower.Refresh(p.t.Context())
		assert.OK(p.t, err)
	}
	p.compare("follower", p.follower, p.spaces, p.kept)
	if p.behind != nil {
		p.behind.compare(p)
	}
	switch n := p.r.IntN(6); {
	case n < 2 || p.behind == nil:
		p.unpin()
		p.pin()
	case n == 2:
		p.unfollow()
	}
}

// pin begins a transaction of the follower.
func (p *company) pin() {
	txn, err := p.follower.Begin(p.t.Context(), brock.TxnOptions{})
	assert.OK(p.t, err)
	b := &backBench{txn: txn, now: uint64(p.now()), spaces: map[*space]*brock.Keyspace{}, states: map[*space]*truth.Store{}}
	for _, x := range p.spaces {
		if b.states[x] = x.m.Clone(); x.ks != nil {
			b.spaces[x] = storetest.OpenKeyspace(p.t, p.follower, x.name())
		}
	}
	p.behind = b
	b.compare(p) // it reads the clock now, if it meets anything that will expire
}

func (b *backBench) compare(p *company) {
	p.t.Helper()
	for x, m := range b.states {
		want := slices.Collect(m.Scan(truth.Scan{}, 1<<60, b.now))
		i := 0
		for item, err := range b.txn.In(b.spaces[x]).All() {
			assert.OK(p.t, err)
			if i == len(want) {
				p.t.Errorf("a follower's transaction finds %.20q@%d in %q", item.Key(), item.Version(), x.name())
				return
			}
			if p.same("a follower's transaction in "+x.name(), item, want[i], true); p.t.Failed() {
				return
			}
			i++
		}
		assert.Equal(p.t, "items of a follower's transaction", i, len(want))
	}
}

func (p *company) unpin() {
	if p.behind != nil {
		p.behind.txn.Discard()
		p.behind = nil
	}
}

func (p *company) unfollow() {
	p.unpin()
	if p.follower != nil {
		assert.OK(p.t, p.follower.Close())
		p.follower = nil
	}
}

func (p *company) endAll() {
	p.unfollow()
	for _, m := range p.txns {
		m.txn.Discard()
	}
	p.txns, p.gone = nil, nil
}
