package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// state is the pairs of a store at one version.
type state map[string]string

func (s state) text() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s)) {
		out = append(out, k+"="+s[k])
	}
	return strings.Join(out, " ")
}

// past has the state behind each commit.
type past struct {
	versions []uint64
	states   map[uint64]state
}

func newPast() *past { return &past{versions: []uint64{0}, states: map[uint64]state{0: {}}} }

func (p *past) newest() uint64 { return p.versions[len(p.versions)-1] }

// add adds a commit that changes the newest state.
func (p *past) add(v uint64, change func(s state)) {
	next := maps.Clone(p.states[p.newest()])
	change(next)
	p.versions, p.states[v] = append(p.versions, v), next
}

// check reads some versions, others each time: from the floor on, and below.
func (p *past) check(t *testing.T, what string, db *brock.DB, floor uint64) {
	t.Helper()
	if got := db.Version(); got != p.newest() {
		t.Fatalf("%s: version %d, want %d", what, got, p.newest())
	}
	some := 1 + len(p.versions)/30
	for i, v := range p.versions {
		if v == 0 || i%some != len(p.versions)%some && i != len(p.versions)-1 {
			continue
		}
		if v < floor {
			err := db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: v}, func(txn *brock.Txn) error {
				_, err := txn.Has([]byte("k01"))
				return err
			})
			if !errors.Is(err, brock.ErrVersionGone) {
				t.Fatalf("%s: read at version %d, discarded below %d: %v", what, v, floor, err)
			}
			continue
		}
		at := []uint64{v}
		if i+1 < len(p.versions) && p.versions[i+1] > v+1 {
			at = append(at, p.versions[i+1]-1)
		}
		for _, at := range at {
			assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
				got := state{}
				for item, err := range txn.All() {
					assert.OK(t, err)
					value := assert.Must(item.ValueCopy(nil))
					got[string(item.Key())] = string(value[:min(len(value), 9)])
					if item.Version() > at {
						t.Errorf("%s: %q of version %d at %d", what, item.Key(), item.Version(), at)
					}
				}
				if got.text() != p.states[v].text() {
					t.Fatalf("%s: at version %d\n%s\nwant that of %d\n%s", what, at, got.text(), v, p.states[v].text())
				}
				return nil
			}))
		}
	}
}

// follow reads a Watch up to the newest commit. Each version must come once, and with its changes
// make the state of that version.
func (p *past) follow(t *testing.T, what string, db *brock.DB, at brock.Position, from uint64) brock.Position {
	t.Helper()
	i, found := slices.BinarySearch(p.versions, from)
	if !found {
		t.Fatalf("%s: %d is no version", what, from)
	}
	s := maps.Clone(p.states[from])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a commit that is left out would be waited for
	defer cancel()
	for c, err := range db.Watch(ctx, brock.WatchOptions{After: at, Buffered: true}) {
		if err != nil {
			t.Fatalf("%s: behind version %d: %v", what, p.versions[i], err)
		}
		if c.Version != p.versions[i] || c.Position() != at {
			if i++; c.Version != p.versions[i] {
				t.Fatalf("%s: version %d comes after %d, want %d", what, c.Version, p.versions[i-1], p.versions[i])
			}
		}
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			switch ch.Kind {
			case brock.ChangeSet:
				value := assert.Must(ch.Value())
				s[string(ch.Key)] = string(value[:min(len(value), 9)])
			case brock.ChangeDelete:
				delete(s, string(ch.Key))
			case brock.ChangeDeleteRange:
				maps.DeleteFunc(s, func(k, _ string) bool {
					return k >= string(ch.Key) && (ch.Upper == nil || k < string(ch.Upper))
				})
			}
		}
		if s.text() != p.states[c.Version].text() {
			t.Fatalf("%s: version %d\n%s\nwant\n%s", what, c.Version, s.text(), p.states[c.Version].text())
		}
		if at = c.Position(); c.Caught {
			if c.Version != p.newest() {
				t.Fatalf("%s: caught up at version %d of %d", what, c.Version, p.newest())
			}
			break
		}
	}
	return at
}

// TestGivenVersions: commits with versions of their own, given ones, batches of several versions,
// large ones in files, and AdvanceVersion, in random order, over flushes, compactions, reopening and
// crashes. Each version can be read, in the store and in a follower; a Watch yields each one, exactly;
// what SetDiscardVersion gives up is gone, and nothing else.
func TestGivenVersions(t *testing.T) {
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { testGivenVersions(t, draw.Seed(t)+uint64(i)) })
	}
}

func testGivenVersions(t *testing.T, seed uint64) {
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 63))
	mem := vfs.NewMem()
	o := brock.Options{Dir: "/db", FS: mem, FeedRetention: brock.FeedRetention{Bytes: 1 << 30}, Keys: storetest.DrawKeys(t)}
	o.KeyspaceDefaults = brock.KeyspaceOptions{ValueThreshold: 300, Versions: brock.Retention{Manual: true}}
	o.MemoryLimit = 4 << 20
	o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10}
	db := assert.Must(brock.Open(o))
	defer func() { assert.OK(t, db.Close()) }()
	p, floor := newPast(), uint64(0)
	var start brock.Position
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{}) {
		assert.OK(t, err)
		start = c.Position()
		break
	}
	at, atVersion := start, uint64(0)
	key := func() string { return fmt.Sprintf("k%02d", rnd.IntN(20)) }
	value := func() (all []byte, head string) {
		head = fmt.Sprintf("%09d", rnd.IntN(1e9))
		return bytes.Repeat([]byte(head), 1+rnd.IntN(2)*rnd.IntN(80)), head
	}
	above := func(v uint64) uint64 {
		switch rnd.IntN(6) {
		case 0:
			return v + 1 + rnd.Uint64N(1<<33) // more than a frame's header can tell
		case 1:
			return v + 1
		}
		return v + 1 + rnd.Uint64N(50)
	}
	write := func(b *brock.Batch, s state) {
		for range 1 + rnd.IntN(4) {
			switch rnd.IntN(8) {
			case 0:
				k := key()
				assert.OK(t, b.Delete([]byte(k)))
				delete(s, k)
			case 1:
				lo, hi := key(), "l"
				assert.OK(t, b.DeleteRange([]byte(lo), []byte(hi)))
				maps.DeleteFunc(s, func(k, _ string) bool { return k >= lo && k < hi })
			default:
				k := key()
				all, head := value()
				assert.OK(t, b.Set([]byte(k), all))
				s[k] = head
			}
		}
	}
	for step := range 200 {
		what := fmt.Sprintf("seed %d, step %d", seed, step)
		switch rnd.IntN(15) {
		case 0, 1, 2: // the next version
			b := db.NewBatch()
			p.add(p.newest()+1, func(s state) { write(b, s) })
			v := assert.Must(b.Commit(t.Context(), brock.Synced))
			assert.Equal(t, what, v, p.newest())
		case 3, 4, 5: // several versions
			b := db.NewBatch()
			for range 1 + rnd.IntN(4) {
				v := above(p.newest())
				assert.OK(t, b.At(v))
				if rnd.IntN(5) == 0 {
					continue // it has no writes
				}
				p.add(v, func(s state) { write(b, s) })
			}
			if b.Len() == 0 {
				continue
			}
			v := assert.Must(b.Commit(t.Context(), brock.Synced))
			assert.Equal(t, what, v, p.newest())
		case 6, 7, 8: // a transaction, some of whose writes are replaced
			v, large := above(p.newest()), rnd.IntN(6) == 0
			o := brock.TxnOptions{CommitAt: v}
			if large {
				o.MaxMemory = 1
			}
			p.add(v, func(s state) {
				assert.OK(t, db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error {
					for range 1 + rnd.IntN(6) {
						k := key()
						all, head := value()
						assert.OK(t, txn.Set([]byte(k), all))
						if s[k] = head; rnd.IntN(4) == 0 {
							assert.OK(t, txn.DeleteRange([]byte(k), nil))
							maps.DeleteFunc(s, func(x, _ string) bool { return x >= k })
						}
					}
					return nil
				}))
			})
		case 9: // refused, and nothing is written
			v := p.newest() - min(p.newest(), rnd.Uint64N(3))
			if v == 0 {
				continue
			}
			runs := 0
			err := db.UpdateContext(t.Context(), brock.TxnOptions{CommitAt: v}, func(txn *brock.Txn) error {
				runs++
				return txn.Set([]byte("refused"), nil)
			})
			if !errors.Is(err, brock.ErrVersionMismatch) || runs != 1 {
				t.Fatalf("%s: commit at version %d of %d: %v, %d runs", what, v, p.newest(), err, runs)
			}
			b := db.NewBatch()
			assert.OK(t, b.At(v))
			assert.OK(t, b.Set([]byte("refused"), nil))
			assert.OK(t, b.At(above(p.newest())))
			assert.OK(t, b.Set([]byte("refused"), nil))
			_, err = b.Commit(t.Context(), brock.Synced)
			assert.Error(t, what, err, brock.ErrVersionMismatch)
		case 10:
			p.add(above(p.newest()), func(state) {})
			assert.OK(t, db.AdvanceVersion(t.Context(), p.newest()))
		case 11:
			switch rnd.IntN(3) {
			case 0:
				_, err := db.Keyspace(fmt.Sprint("ks", step))
				assert.OK(t, err)
				p.add(p.newest()+1, func(state) {})
			case 1:
				assert.OK(t, db.Flush(t.Context()))
			case 2:
				assert.OK(t, db.Compact(t.Context()))
			}
		case 12:
			v := p.versions[rnd.IntN(len(p.versions))]
			assert.OK(t, db.Default().SetDiscardVersion(v))
			floor = max(floor, v)
		case 13: // all was synced, so nothing may be lost
			if rnd.IntN(2) == 0 {
				assert.OK(t, db.Close())
			} else {
				crashed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: rnd.Uint64()})
				_ = db.Close()
				mem = crashed
				o.FS = mem
			}
			db = assert.Must(brock.Open(o))
			p.check(t, what+", reopened", db, floor)
		case 14:
			at, atVersion = p.follow(t, what, db, at, atVersion), p.newest()
			f := o
			f.Mode = brock.Follow
			follower := assert.Must(brock.Open(f))
			p.check(t, what+", follower", follower, floor)
			p.follow(t, what+", follower", follower, start, 0)
			assert.OK(t, follower.Close())
		}
	}
	p.check(t, "at the end", db, floor)
	p.follow(t, "at the end", db, start, 0)
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
}

// TestGapBesideJumps: a commit that is missing before one with a given version is found, whoever reads.
func TestGapBesideJumps(t *testing.T) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: "/db", FS: mem}
	db := assert.Must(brock.Open(o))
	defer func() { assert.OK(t, db.Close()) }()
	at := func(v uint64) {
		assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{CommitAt: v}, func(txn *brock.Txn) error { return txn.Set([]byte("k"), nil) }))
	}
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	at(100)
	// Nobody reads the feed, so the history does not have this.
	assert.OK(t, db.AdvanceVersion(t.Context(), 300))
	at(1<<40 + 5)
	var got []uint64
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for c, err := range db.Watch(ctx, brock.WatchOptions{After: rep.at}) {
		if err != nil {
			assert.Error(t, "a gap", err, brock.ErrVersionGone)
			break
		}
		got = append(got, c.Version)
	}
	assert.Equal(t, "commits", fmt.Sprint(got), "[100]")
}

// TestLostAdvance: a manifest of before AdvanceVersion doesn't fit the journal behind it, and one that
// lacks nothing does, however far its versions jump.
func TestLostAdvance(t *testing.T) {
	for _, lost := range []bool{false, true} {
		mem := vfs.NewMem()
		o := brock.Options{Dir: "/db", FS: mem, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
		db := assert.Must(brock.Open(o))
		at := func(v uint64) {
			assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{CommitAt: v}, func(txn *brock.Txn) error { return txn.Set([]byte("k"), nil) }))
		}
		at(100)
		files := map[string]string{}
		for _, name := range storetest.ListFiles(t, mem, "") {
			if base := path.Base(name); strings.HasPrefix(base, "MANIFEST") || strings.HasPrefix(base, "SUPER") {
				files[name] = string(storetest.ReadFile(t, mem, name))
			}
		}
		if lost {
			assert.OK(t, db.AdvanceVersion(t.Context(), 300))
		}
		at(400)
		at(7<<32 + 400)
		crashed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
		assert.OK(t, db.Close())
		for name, content := range files {
			assert.OK(t, crashed.Remove(name))
			storetest.WriteFile(t, crashed, name, content)
		}
		o.FS = crashed
		db, err := brock.Open(o)
		if lost {
			assert.Error(t, "the edit of version 300 is lost", err, brock.ErrCorrupt)
			if !strings.Contains(err.Error(), "version 400, and no version from 101 on") {
				t.Error(err)
			}
			continue
		}
		assert.OK(t, err)
		assert.Equal(t, "version", db.Version(), 7<<32+400)
		assert.OK(t, db.Close())
	}
}
