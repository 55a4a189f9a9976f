// Package mixed tests how given versions, operations, savepoints, locks, loads, versioned keys, empty
// keys and the change feed go together.
package mixed

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// past is a commit that a store has made, and its state then.
type past struct {
	part
	state
}

// world is a store and what it must have.
type world struct {
	t   *testing.T
	r   *rand.Rand
	o   brock.Options
	mem *vfs.Mem
	fs  *faultfs.FS // over mem
	*store
	past    []past // the commits, ascending
	durable int    // so many of them are durable at least
	floor   uint64 // older history was given up
}

// TestMixes does random commands of all kinds, alone and many at once, on a store that flushes, compacts,
// loses its power and is opened again, and compares it with a map. Then another store gets the commits
// again, with the same versions, in other forms: both must have the same history, which a follower and
// a Watch show, too. It would find features that work alone and break each other: an operation that
// has missed what a load, a range delete or another version of a group has written, a wrong version, a
// rollback that forgets too little, or a read that does not show what the commit writes.
func TestMixes(t *testing.T) {
	r := rand.New(rand.NewPCG(draw.Seed(t), 0))
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	o := brock.Options{Dir: "db", FS: fs, Keys: storetest.DrawKeys(t), Durability: brock.Buffered, MemoryLimit: 4 << 20, Tuning: brock.Tuning{MemtableSize: 64 << 10}}
	o.KeyspaceDefaults = brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}, ValueThreshold: 150, Compression: brock.Zstd, CompressAbove: 100}
	w := &world{t: t, r: r, o: o, mem: mem, fs: fs, store: openStore(t, o)}
	defer func() { assert.OK(t, w.Close()) }()
	w.past = []past{{part{version: w.Version()}, state{}}}
	for range 150 {
		w.step()
	}
	assert.OK(t, w.Verify(t.Context(), nil))
	w.replay()
}

// newest is the newest commit.
func (w *world) newest() *past { return &w.past[len(w.past)-1] }

// add notes commits, in the order of their versions. synced is the greatest version that is durable.
func (w *world) add(parts []part, synced uint64) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.version, b.version) })
	for _, p := range parts {
		if p.version <= w.newest().version {
			w.t.Fatalf("version %d comes after %d", p.version, w.newest().version)
		}
		next := maps.Clone(w.newest().state)
		if p.seen != nil && !maps.Equal(p.seen, next.within(p.in)) {
			w.t.Fatalf("the commit of version %d had read\n%s, behind\n%s", p.version, p.seen.text(), next.within(p.in).text())
		}
		next.commit(p)
		w.past = append(w.past, past{p, next})
		if p.version <= synced {
			w.durable = len(w.past)
		}
	}
}

func (w *world) step() {
	switch w.r.IntN(16) {
	case 0:
		assert.OK(w.t, w.Flush(w.t.Context()))
	case 1:
		assert.OK(w.t, w.Compact(w.t.Context()))
	case 2:
		w.losePower()
	case 3:
		if w.r.IntN(4) == 0 {
			w.floor = max(w.floor, w.past[w.r.IntN(len(w.past))].version)
			for _, side := range []bool{false, true} {
				assert.OK(w.t, w.keyspace(side).SetDiscardVersion(w.floor))
			}
		}
	case 4, 5, 6:
		w.commitMany()
	default:
		w.interact()
	}
	w.check()
}

// check compares the store with the newest state and some older ones.
func (w *world) check() {
	w.t.Helper()
	assert.Equal(w.t, "version", w.Version(), w.newest().version)
	w.compare(brock.TxnOptions{}, w.newest())
	for range 3 {
		i := w.r.IntN(len(w.past))
		if p := &w.past[i]; p.version >= w.floor && p.version > 0 {
			w.compare(brock.TxnOptions{ReadAt: p.version}, p)
			if i+1 < len(w.past) {
				w.compare(brock.TxnOptions{ReadAt: w.past[i+1].version - 1}, p)
			}
		}
	}
}

func (w *world) compare(o brock.TxnOptions, p *past) {
	w.t.Helper()
	if got := w.read(w.t, o); !maps.Equal(got, p.state) {
		w.t.Fatalf("at %d, version %d of %d, %s\n got %s\nwant %s", o.ReadAt, p.version, w.newest().version, showWrites(p.writes), got.text(), p.text())
	}
}

// losePower opens what a power loss leaves. That must be the state behind a commit, and nothing durable
// is lost.
func (w *world) losePower() {
	mode := []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Prefix, vfs.Chaos}[w.r.IntN(4)]
	clone := w.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: w.r.Uint64()})
	assert.OK(w.t, w.Close())
	w.mem, w.fs = clone, faultfs.New(clone, faultfs.Options{})
	w.o.FS = w.fs
	w.store = openStore(w.t, w.o)
	got, left := w.read(w.t, brock.TxnOptions{}), len(w.past)
	for ; left > 0; left-- {
		if p := &w.past[left-1]; p.version <= w.Version() && maps.Equal(p.state, got) {
			break
		}
	}
	if left < w.durable {
		w.t.Fatalf("%d commits are left of %d, durable are %d:\n%s\nwant\n%s", left, len(w.past), w.durable, got.text(), w.past[w.durable-1].text())
	}
	w.past = w.past[:left]
	if v := w.Version(); v > w.newest().version {
		w.past = append(w.past, past{part{version: v}, w.newest().state})
	}
	w.durable = len(w.past)
}

// drawVersion draws a version to give to a commit; 0: none.
func (w *world) drawVersion(r *rand.Rand) uint64 {
	switch n := r.IntN(60); {
	case n < 30:
		return 0
	case n < 31: // further than the header of a frame can tell
		return w.Version() + 1<<32 + r.Uint64N(1<<33)
	}
	return w.Version() + 1 + r.Uint64N(20)
}

// commitMany does commands that read nothing on several goroutines, so that they get into groups.
func (w *world) commitMany() {
	var mu sync.Mutex
	var parts []part
	var synced uint64
	var work sync.WaitGroup
	defer w.fs.Heal()
	if w.r.IntN(4) == 0 { // the journal's disk is full for a moment: groups are refused
		w.fs.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Path: ".log", Nth: 1 + w.r.IntN(8), Times: 1 + w.r.IntN(4), Err: faultfs.ErrNoSpace, Short: true})
	}
	for range 2 + w.r.IntN(12) {
		r := rand.New(rand.NewPCG(w.r.Uint64(), 0))
		work.Go(func() {
			for range 1 + r.IntN(6) {
				made, durable := w.commitOne(r)
				mu.Lock()
				if parts = append(parts, made...); durable && len(made) > 0 {
					synced = max(synced, made[len(made)-1].version)
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	w.add(parts, synced)
}

// commitOne does a random command, and returns what it has committed.
func (w *world) commitOne(r *rand.Rand) (made []part, durable bool) {
	ctx := w.t.Context()
	durability := []brock.Durability{brock.Buffered, brock.Buffered, brock.Synced}[r.IntN(3)]
	durable = durability == brock.Synced
	p := part{version: w.drawVersion(r)}
	o := brock.TxnOptions{Durability: durability, Isolation: brock.Isolation(r.IntN(3))}
	if o.Isolation == brock.Serializable {
		p.in.side = r.IntN(2) == 0
		p.in.key, p.in.hi = drawBounds(r)
	}
	var err error
	switch n := r.IntN(20); {
	case n == 0:
		p.version = w.Version() + 1 + r.Uint64N(5)
		err, durable = w.AdvanceVersion(ctx, p.version), true
	case n == 1:
		p, err = w.load(r)
		durable = true
	case n < 13:
		for range 1 + r.IntN(4) {
			p.writes = append(p.writes, drawWrite(r, false))
		}
		p, err = w.commitTxn(p, o)
	case n < 15: // spilled
		for range 6 {
			p.writes = append(p.writes, drawWrite(r, true))
		}
		p.writes = append(p.writes, write{place: place{key: "t"}, value: string(storetest.RandomBytes(r.IntN(1000), 3000))})
		p, err = w.commitTxn(p, o)
	default:
		return w.commitBatch(r, durability)
	}
	if err == nil && p.version == 0 || w.isRefused(err, p.version != 0, o.Isolation != brock.LastWriterWins) {
		return nil, false
	}
	assert.OK(w.t, err)
	return []part{p}, durable
}

// isRefused reports whether err is a refusal that has changed nothing: by the full disk, if others have
// passed a version that was given, or over a conflict.
func (w *world) isRefused(err error, given, checked bool) bool {
	switch {
	case errors.Is(err, brock.ErrStopped):
		return false
	case errors.Is(err, brock.ErrVersionMismatch):
		return given
	case errors.Is(err, brock.ErrConflict):
		return checked
	}
	return errors.Is(err, brock.ErrNoSpace) && w.fs.Struck() > 0
}

// commitTxn commits a part, with the version that it has, and returns it with the one that it got.
// A version of 0 means that nothing was changed. A Serializable one reads a range before.
func (s *store) commitTxn(p part, o brock.TxnOptions) (part, error) {
	o.Update, o.CommitAt = true, p.version
	if !slices.ContainsFunc(p.writes, func(w write) bool { return w.kind >= apply }) {
		o.MaxMemory = 2000
	}
	txn, err := s.Begin(context.Background(), o)
	if err != nil {
		return p, err
	}
	defer txn.Discard()
	if o.Isolation == brock.Serializable {
		if p.seen, err = s.readRange(txn, p.in); err != nil {
			return p, err
		}
	}
	for _, w := range p.writes {
		if err := s.writeTxn(txn, w); err != nil {
			return p, err
		}
	}
	if err := txn.Commit(); err != nil {
		return p, err
	}
	p.version = txn.CommitVersion()
	return p, nil
}

// commitBatch commits a batch, mostly of several versions.
func (w *world) commitBatch(r *rand.Rand, durability brock.Durability) (made []part, durable bool) {
	b := w.NewBatch()
	next := w.Version()
	n := r.IntN(4)
	for i := range max(n, 1) {
		var p part
		if n > 0 {
			next += 1 + r.Uint64N(4)
			p.version = next
			assert.OK(w.t, b.At(next))
		}
		for range 1 + r.IntN(4) {
			x := drawWrite(r, true)
			if n < 2 && r.IntN(4) == 0 {
				x = write{place: place{x.side, "q"}, kind: versioned, value: drawValue(r, true)}
			} else if n > 1 && i > 0 && r.IntN(3) == 0 { // over what the version before may have set
				x.kind, x.key, x.hi = removeRange, "", ""
			}
			assert.OK(w.t, w.writeBatch(b, x))
			p.writes = append(p.writes, x)
		}
		made = append(made, p)
	}
	v, err := b.Commit(w.t.Context(), durability)
	if w.isRefused(err, n > 0, false) {
		return nil, false
	}
	assert.OK(w.t, err)
	made[len(made)-1].version = v
	return made, durability == brock.Synced
}

// load loads a keyspace.
func (w *world) load(r *rand.Rand) (p part, err error) {
	side := r.IntN(2) == 0
	o := brock.LoadOptions{Sorted: r.IntN(2) == 0, Replace: r.IntN(2) == 0, MaxMemory: []int64{1000, 0}[r.IntN(2)]}
	l, err := w.keyspace(side).NewLoader(w.t.Context(), o)
	if err != nil {
		return p, err
	}
	defer l.Abort()
	if o.Replace {
		p.writes = append(p.writes, write{place: place{side: side}, kind: removeRange})
	}
	for _, key := range keys {
		if r.IntN(2) == 0 {
			continue
		}
		x := write{place: place{side, key}, value: drawValue(r, key >= "t")}
		if err := l.Set([]byte(key), []byte(x.value)); err != nil {
			return p, err
		}
		p.writes = append(p.writes, x)
	}
	p.version, err = l.Finish()
	return p, err
}

// replay gives the commits to a new store, with their versions, in other forms, and compares the
// histories.
func (w *world) replay() {
	o := brock.Options{Dir: "copy", FS: vfs.NewMem(), Durability: brock.Buffered, FeedRetention: brock.FeedRetention{Bytes: 1 << 30}, Tuning: brock.Tuning{MemtableSize: 64 << 10}}
	o.KeyspaceDefaults = brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}, ValueThreshold: -1}
	c := &world{t: w.t, r: w.r, o: o, store: openStore(w.t, o), past: w.past}
	defer func() { assert.OK(w.t, c.Close()) }()
	begin := c.position()
	isPlain := func(p past) bool {
		return len(p.writes) > 0 && !slices.ContainsFunc(p.writes, func(w write) bool { return w.kind >= apply })
	}
	for rest := w.past[1:]; len(rest) > 0; {
		n := 0
		for n < len(rest) && isPlain(rest[n]) && w.r.IntN(4) > 0 {
			n++
		}
		if n > 0 { // several commits of the other store are one here
			b := c.NewBatch()
			for _, p := range rest[:n] {
				assert.OK(w.t, b.At(p.version))
				for _, x := range p.writes {
					assert.OK(w.t, c.writeBatch(b, x))
				}
			}
			assert.Must(b.Commit(w.t.Context(), brock.Buffered))
			rest = rest[n:]
			continue
		}
		p := rest[0]
		rest = rest[1:]
		if got := assert.Must(c.commitTxn(p.part, brock.TxnOptions{Isolation: brock.LastWriterWins})); got.version == 0 {
			assert.OK(w.t, c.AdvanceVersion(w.t.Context(), p.version))
		}
		assert.Equal(w.t, "version of the copy", c.Version(), p.version)
		if w.r.IntN(60) == 0 {
			assert.OK(w.t, c.Flush(w.t.Context()))
		}
	}
	for i := range c.past[1:] {
		c.compare(brock.TxnOptions{ReadAt: c.past[i+1].version}, &c.past[i+1])
	}
	c.follow()
	c.watch(begin)
}

// position is the place behind what there is.
func (w *world) position() brock.Position {
	for c, err := range w.Watch(w.t.Context(), brock.WatchOptions{Snapshot: true}) {
		assert.OK(w.t, err)
		return c.Position()
	}
	panic("a Watch ended")
}

// follow compares a follower with the store.
func (w *world) follow() {
	assert.OK(w.t, w.Sync(w.t.Context()))
	db := storetest.OpenFollower(w.t, w.o)
	f := &world{t: w.t, r: w.r, past: w.past, store: &store{db, assert.Must(db.Keyspace("side"))}}
	f.check()
	assert.OK(w.t, db.Close())
}

// watch makes each state of the changes that a Watch from the beginning yields.
func (w *world) watch(begin brock.Position) {
	s, at := state{}, 0
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute) // a commit that is left out would be waited for
	defer cancel()
	for c, err := range w.Watch(ctx, brock.WatchOptions{After: begin}) {
		assert.OK(w.t, err)
		for ch, err := range c.Changes() {
			assert.OK(w.t, err)
			x := write{place: place{ch.Keyspace == "side", string(ch.Key)}, kind: set, hi: string(ch.Upper)}
			switch ch.Kind {
			case brock.ChangeSet:
				x.value = string(assert.Must(ch.Value()))
			case brock.ChangeDelete:
				x.kind = remove
			case brock.ChangeDeleteRange:
				x.kind = removeRange
			}
			s.do(x, 0, 0)
		}
		for at+1 < len(w.past) && w.past[at+1].version <= c.Version {
			at++
		}
		if p := w.past[at]; p.version <= c.Version && !maps.Equal(s, p.state) {
			w.t.Fatalf("the feed at %d, version %d\n got %s\nwant %s", c.Version, p.version, s.text(), p.text())
		}
		if c.Version == w.newest().version {
			return
		}
	}
}
