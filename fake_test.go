package brock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/tombstone"
)

// fakeEngine is an engine of one sorted slice, replaced at every publication. It
// keeps all versions, and complains of whatever is used after its release.
type fakeEngine struct {
	t       testing.TB
	data    atomic.Pointer[[]entry.Entry]
	visible atomic.Uint64
	pins    atomic.Int64
	closed  atomic.Bool

	mu      sync.Mutex
	applied []entry.Entry    // not yet published
	layout  *manifest.Layout // for its keyspaces
	deletes atomic.Pointer[tombstone.Set]
	values  map[string][]byte
	fault   error // returned by every read
	discard bool  // Apply forgets
}

func newFakeEngine(t testing.TB) *fakeEngine {
	e := &fakeEngine{t: t, values: map[string][]byte{}, layout: manifest.NewLayout()}
	e.data.Store(new([]entry.Entry))
	return e
}

func valueName(key []byte, v entry.Version) string { return fmt.Sprintf("%s@%d", key, v) }

func (e *fakeEngine) Apply(payload []byte, _ commit.Position) error {
	if e.discard {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(payload) > 0 {
		r, err := entry.DecodeRecord(payload)
		if err != nil {
			return err
		}
		payload = payload[r.Size:]
		if r.Kind == entry.RangeDelete {
			e.deletes.Store(e.deletes.Load().With(tombstone.Tombstone{Lo: bytes.Clone(r.Key), Hi: bytes.Clone(r.Value), Version: r.Version}))
			continue
		}
		n := entry.Entry{Key: bytes.Clone(r.Key), Version: r.Version, Kind: r.Kind, Meta: r.Meta, Expires: r.Expires}
		if r.Own {
			e.values[valueName(r.Key, r.Version)] = append([]byte{}, r.Value...)
			n.Separated, n.Handle.Length = true, uint64(len(r.Value))
		} else if r.Kind != entry.Delete {
			n.Value = bytes.Clone(r.Value)
		}
		e.applied = append(e.applied, n)
	}
	return nil
}

func (e *fakeEngine) CatchUp() {}

func (e *fakeEngine) Publish(v entry.Version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data := slices.Clone(*e.data.Load())
	for i := range e.applied {
		n := e.applied[i]
		at, found := slices.BinarySearchFunc(data, n, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
		if found {
			data[at] = n
		} else {
			data = slices.Insert(data, at, n)
		}
	}
	e.applied = nil
	e.data.Store(&data)
	e.visible.Store(uint64(v))
}

func (e *fakeEngine) Admit(ctx context.Context, _ []byte) error { return ctx.Err() }
func (e *fakeEngine) Prepare(int) error                         { return nil }

func (e *fakeEngine) Newest(key []byte, _ uint64, _ entry.Version) (entry.Version, bool, error) {
	data := *e.data.Load()
	v := e.deletes.Load().Newest(key, entry.MaxVersion)
	i := seekFake(data, key)
	if i < len(data) && bytes.Equal(data[i].Key, key) {
		v = max(v, data[i].Version)
	}
	return v, v > 0, nil
}

func (e *fakeEngine) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	data := *e.data.Load()
	if e.deletes.Load().ChangedSince(lo, hi, since) {
		return true, nil
	}
	for i := seekFake(data, lo); i < len(data) && (hi == nil || bytes.Compare(data[i].Key, hi) < 0); i++ {
		if data[i].Version > since {
			return true, nil
		}
	}
	return false, nil
}

func seekFake(data []entry.Entry, key []byte) int {
	return sort.Search(len(data), func(i int) bool { return bytes.Compare(data[i].Key, key) >= 0 })
}

func (e *fakeEngine) NewSpill() spill {
	e.t.Fatal("this engine keeps all in memory")
	return nil
}

func (e *fakeEngine) Acquire(at entry.Version) (pin, error) {
	if e.closed.Load() {
		return nil, errs.ErrClosed
	}
	visible := entry.Version(e.visible.Load())
	if at > visible {
		return nil, errs.ErrInvalid
	}
	if at == 0 {
		at = visible
	}
	e.pins.Add(1)
	return &fakePin{e: e, data: *e.data.Load(), at: at, layout: e.current()}, nil
}

func (e *fakeEngine) current() *manifest.Layout {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.layout
}

func (e *fakeEngine) edit(edit *manifest.Edit) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next, err := e.layout.Apply(edit)
	if err == nil {
		e.layout = next
	}
	return err
}

func (e *fakeEngine) Keyspaces() []manifest.Keyspace { return e.current().Keyspaces() }

func (e *fakeEngine) CreateKeyspace(name string, o manifest.KeyspaceOptions) (manifest.Keyspace, error) {
	k := manifest.Keyspace{ID: entry.KeyspaceID(e.current().NextKeyspace()), Name: name, Options: o}
	return k, e.edit(&manifest.Edit{SetKeyspaces: []manifest.Keyspace{k}})
}

func (e *fakeEngine) SetKeyspace(id entry.KeyspaceID, o manifest.KeyspaceOptions) error {
	k := *e.current().Keyspace(id)
	k.Options = o
	return e.edit(&manifest.Edit{SetKeyspaces: []manifest.Keyspace{k}})
}

func (e *fakeEngine) DropKeyspace(id entry.KeyspaceID) error {
	return e.edit(&manifest.Edit{DropKeyspaces: []entry.KeyspaceID{id}})
}

func (e *fakeEngine) Visible() entry.Version { return entry.Version(e.visible.Load()) }
func (e *fakeEngine) Size(lo, hi []byte) (entries, size, separated uint64) {
	data := *e.data.Load()
	for _, n := range data[seekFake(data, lo):seekFake(data, hi)] {
		entries++
		size += uint64(len(n.Key) + len(n.Value))
		separated += n.Handle.Length
	}
	return entries, size, separated
}

func (e *fakeEngine) Jumped(uint64) {}

func (e *fakeEngine) Split(lo, hi []byte, n int) (keys [][]byte) {
	data := *e.data.Load()
	part := data[seekFake(data, lo):seekFake(data, hi)]
	for i := 1; i < n && len(part) > n; i++ {
		keys = append(keys, part[i*len(part)/n].Key)
	}
	return keys
}

func (e *fakeEngine) Flush(ctx context.Context) error            { return ctx.Err() }
func (e *fakeEngine) Reclaim(ctx context.Context) (int64, error) { return 0, ctx.Err() }
func (e *fakeEngine) Compact(ctx context.Context) error          { return ctx.Err() }
func (e *fakeEngine) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	return ctx.Err()
}
func (e *fakeEngine) Metrics() TreeMetrics {
	return TreeMetrics{Version: e.visible.Load(), Memtables: 1}
}
func (e *fakeEngine) Close() error { e.closed.Store(true); return nil }

func (e *fakeEngine) Append(g commit.Group) (commit.Position, error) { return commit.Position{}, nil }
func (e *fakeEngine) Sync() error                                    { return nil }
func (e *fakeEngine) Retract() error                                 { return errors.New("nothing was refused") }

type fakePin struct {
	e        *fakeEngine
	data     []entry.Entry
	at       entry.Version
	layout   *manifest.Layout
	released atomic.Bool
}

func (p *fakePin) check() {
	if p.released.Load() {
		p.e.t.Error("pin used after its release")
	}
}

func (p *fakePin) Version() entry.Version         { return p.at }
func (p *fakePin) Holds(id entry.KeyspaceID) bool { return p.layout.Keyspace(id) != nil }

func (p *fakePin) From(uintptr)                         {}
func (p *fakePin) Floor(entry.KeyspaceID) entry.Version { return 0 }

func (p *fakePin) Get(key []byte, dst *entry.Entry) (bool, error) {
	p.check()
	if p.e.fault != nil {
		return false, p.e.fault
	}
	for i := seekFake(p.data, key); i < len(p.data) && bytes.Equal(p.data[i].Key, key); i++ {
		if p.data[i].Version <= p.at {
			*dst = p.data[i]
			dst.Key = nil
			return dst.Version >= p.e.deletes.Load().Newest(key, p.at), nil
		}
	}
	return false, nil
}

func (p *fakePin) Value(key []byte, n *entry.Entry, _ []byte) ([]byte, error) {
	p.check()
	if !n.Separated {
		return append([]byte{}, n.Value...), nil
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	v, ok := p.e.values[valueName(key, n.Version)]
	if !ok {
		return nil, errs.NewCorruption("000001.log", 4096, "no record of the key")
	}
	return v, nil
}

// Touch says of every other value that it is near.
func (p *fakePin) Jump(n *entry.Entry) uint64 { p.check(); return n.Handle.Length }
func (p *fakePin) Touch(n *entry.Entry) bool  { p.check(); return n.Version%2 == 0 }

func (p *fakePin) Iterator() iterator.Iterator { return &fakeIterator{pin: p, i: -1} }

func (p *fakePin) Cover(bool) *tombstone.Cover {
	p.check()
	return tombstone.NewCover(p.at, p.e.deletes.Load())
}

func (p *fakePin) Release() {
	if p.released.Swap(true) {
		p.e.t.Error("pin released twice")
	}
	p.e.pins.Add(-1)
}

// fakeIterator hands out one Entry and one key buffer, overwritten by each move.
type fakeIterator struct {
	pin    *fakePin
	i      int
	entry  entry.Entry
	closed bool
	err    error
}

func (it *fakeIterator) at(i int) bool {
	it.pin.check()
	if it.closed {
		it.pin.e.t.Error("source iterator used after its Close")
	}
	if it.err = it.pin.e.fault; it.err != nil {
		it.i = -1
		return false
	}
	for j := range it.entry.Key {
		it.entry.Key[j] = 0xee
	}
	if i < 0 || i >= len(it.pin.data) {
		it.i = -1
		return false
	}
	it.i = i
	key := append(it.entry.Key[:0], it.pin.data[i].Key...)
	it.entry = it.pin.data[i]
	it.entry.Key = key
	return true
}

func (it *fakeIterator) First() bool                       { return it.at(0) }
func (it *fakeIterator) Last() bool                        { return it.at(len(it.pin.data) - 1) }
func (it *fakeIterator) SeekGE(key []byte) bool            { return it.at(seekFake(it.pin.data, key)) }
func (it *fakeIterator) SeekLT(key []byte) bool            { return it.at(seekFake(it.pin.data, key) - 1) }
func (it *fakeIterator) Next() bool                        { return it.i >= 0 && it.at(it.i+1) }
func (it *fakeIterator) Prev() bool                        { return it.i >= 0 && it.at(it.i-1) }
func (it *fakeIterator) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *fakeIterator) SkipLT([]byte, entry.Version) bool { return it.Prev() }
func (it *fakeIterator) Entry() *entry.Entry               { return &it.entry }
func (it *fakeIterator) Err() error                        { return it.err }
func (it *fakeIterator) Close() {
	if it.closed {
		it.pin.e.t.Error("source iterator closed twice")
	}
	it.closed = true
}

// openFake returns a store on a fakeEngine, and that.
func openFake(t testing.TB, o Options) (*DB, *fakeEngine) {
	o.InMemory = o.Dir == ""
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	e := newFakeEngine(t)
	var db *DB
	if o.Mode == ReadWrite {
		c := commit.New(commit.Config{Store: e, Journal: e, HashSeed: 42})
		db = newDB(o, e, c, 42)
		db.exclusive = c.Do
	} else {
		db = newDB(o, e, nil, 42)
	}
	t.Cleanup(func() {
		db.Close()
		if n := e.pins.Load(); n != 0 && !t.Failed() {
			t.Errorf("%d pins are left", n)
		}
	})
	return db, e
}
