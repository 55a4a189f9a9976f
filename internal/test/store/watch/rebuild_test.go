package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// replica is a store that is made of what Watch yields, and of nothing else.
type replica struct {
	keyspaces map[string]map[string]string // name, key: value, meta and expiry
	at        brock.Position
	commits   int
	lossy     bool // versions may be left out: those of commits that a power loss took
	kinds     map[brock.ChangeKind]int
}

func newReplica() *replica {
	return &replica{keyspaces: map[string]map[string]string{"": {}}, kinds: map[brock.ChangeKind]int{}}
}

func shown(value []byte, meta byte, expires time.Time) string {
	at := int64(0)
	if !expires.IsZero() {
		at = expires.UnixMilli()
	}
	return fmt.Sprintf("%s meta %d expires %d", value, meta, at)
}

// apply applies a commit, and checks that it is the next one.
func (r *replica) apply(t *testing.T, c *brock.Commit) {
	t.Helper()
	changes := 0
	if c.Snapshot {
		r.keyspaces = map[string]map[string]string{"": {}}
	}
	for ch, err := range c.Changes() {
		assert.OK(t, err)
		changes++
		r.kinds[ch.Kind]++
		r.applyChange(t, ch)
	}
	switch {
	case c.Snapshot || r.at == brock.Position{}:
	case changes == 0 && c.Version != r.at.Version() && !r.lossy:
		t.Fatalf("an empty commit of version %d, after %d", c.Version, r.at.Version())
	case changes > 0 && c.Version != r.at.Version()+1 && !(r.lossy && c.Version > r.at.Version()):
		t.Fatalf("version %d follows %d", c.Version, r.at.Version())
	}
	if r.at = c.Position(); r.at.Version() != c.Version {
		t.Fatalf("position %v of version %d", r.at, c.Version)
	}
	r.commits++
}

func (r *replica) applyChange(t *testing.T, ch *brock.Change) {
	t.Helper()
	ks := r.keyspaces[ch.Keyspace]
	if ks == nil && ch.Kind != brock.ChangeKeyspaceCreated {
		if ch.Kind != brock.ChangeSet {
			return
		}
		ks = map[string]string{} // of a snapshot
		r.keyspaces[ch.Keyspace] = ks
	}
	switch ch.Kind {
	case brock.ChangeSet:
		v, err := ch.Value()
		assert.OK(t, err)
		ks[string(ch.Key)] = shown(v, ch.Meta, ch.ExpiresAt)
	case brock.ChangeDelete:
		delete(ks, string(ch.Key))
	case brock.ChangeDeleteRange:
		maps.DeleteFunc(ks, func(k, _ string) bool { return k >= string(ch.Key) && (ch.Upper == nil || k < string(ch.Upper)) })
	case brock.ChangeKeyspaceCreated:
		r.keyspaces[ch.Keyspace] = map[string]string{}
	case brock.ChangeKeyspaceDropped:
		delete(r.keyspaces, ch.Keyspace)
	default:
		t.Fatalf("change %v", ch.Kind)
	}
}

// text is the contents; keyspaces without keys are left out, as a snapshot has none of them.
func (r *replica) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.keyspaces)) {
		for _, key := range slices.Sorted(maps.Keys(r.keyspaces[name])) {
			fmt.Fprintf(&b, "%q %q %.200s\n", name, key, r.keyspaces[name][key])
		}
	}
	return b.String()
}

// contents is the text of a store as of a version; 0: as it is now.
func contents(t *testing.T, db *brock.DB, at uint64, all bool) string {
	t.Helper()
	r := newReplica()
	assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
		list := []*brock.Keyspace{nil}
		if all {
			list = slices.AppendSeq(list, db.Keyspaces())
		}
		for _, ks := range list {
			name := ""
			if ks != nil {
				name = ks.Name()
			}
			r.keyspaces[name] = map[string]string{}
			for item, err := range txn.In(ks).All() {
				if err != nil {
					return err
				}
				v, err := item.Value()
				if err != nil {
					return err
				}
				r.keyspaces[name][string(item.Key())] = shown(v, item.Meta(), item.ExpiresAt())
			}
		}
		return nil
	}))
	return r.text()
}

// pull reads until the Watch says that nothing is newer, or some commits were read.
func (r *replica) pull(t *testing.T, db *brock.DB, o brock.WatchOptions, most int, each func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.After = r.at
	if o.Snapshot {
		o.After = brock.Position{}
	}
	for c, err := range db.Watch(ctx, o) {
		assert.OK(t, err)
		r.apply(t, c)
		if each != nil {
			each()
		}
		if most--; most == 0 || c.Caught {
			return
		}
	}
}

// writer writes at random what the feed has to tell.
type writer struct {
	t       *testing.T
	r       *rand.Rand
	db      *brock.DB
	expires time.Time
	large   bool // transactions that spill
	copies  int  // checkpoints, and rotations of keys; -1: none
}

func (w *writer) key() []byte { return fmt.Appendf(nil, "key %03d", w.r.IntN(120)) }

func (w *writer) keyspace() *brock.Keyspace {
	if w.r.IntN(2) == 0 {
		return nil
	}
	return storetest.OpenKeyspace(w.t, w.db, fmt.Sprintf("ks %d", w.r.IntN(3)))
}

func (w *writer) value() []byte {
	switch w.r.IntN(12) {
	case 0:
		return storetest.RandomBytes(w.r.IntN(1000), 70_000+w.r.IntN(90_000)) // in pieces
	case 1, 2, 3:
		return bytes.Repeat([]byte("compressible "), 50+w.r.IntN(300))
	case 4:
		return nil
	}
	return fmt.Appendf(nil, "value %d", w.r.Uint64())
}

// step does one thing that commits, or moves what was committed.
func (w *writer) step() {
	t, db := w.t, w.db
	switch n := w.r.IntN(40); {
	case n < 26:
		o := brock.TxnOptions{Update: true, Durability: brock.Durability(1 + w.r.IntN(2))}
		writes := 1 + w.r.IntN(8)
		if n == 0 && w.large {
			o.MaxMemory, writes = 1, 300
		}
		assert.OK(t, db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error {
			txn = txn.In(w.keyspace())
			for range writes {
				var err error
				switch w.r.IntN(10) {
				case 0:
					lo, hi := w.key(), w.key()
					err = txn.DeleteRange(lo, hi)
				case 1, 2:
					err = txn.Delete(w.key())
				case 3:
					err = txn.SetEntry(&brock.Entry{Key: w.key(), Value: w.value(), Meta: 7, ExpiresAt: w.expires, OnlyLatest: w.r.IntN(2) == 0})
				default:
					err = txn.Set(w.key(), w.value())
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
	case n < 28:
		assert.OK(t, db.DropAll(t.Context()))
	case n < 30:
		if ks := w.keyspace(); ks != nil {
			assert.OK(t, ks.Drop(t.Context()))
		}
	case n < 34:
		assert.OK(t, db.Flush(t.Context()))
	case n < 36:
		assert.OK(t, db.Compact(t.Context()))
	case n < 37:
		_, err := db.Reclaim(t.Context())
		assert.OK(t, err)
	case n < 38 && w.copies >= 0:
		w.copies++
		assert.OK(t, db.Checkpoint(t.Context(), fmt.Sprint("checkpoint ", w.copies)))
		if err := db.RotateKey(t.Context(), brock.RotateOptions{}); !errors.Is(err, brock.ErrUnsupported) { // a plain store
			assert.OK(t, err)
		}
	default:
		assert.OK(t, db.Sync(t.Context()))
	}
}

func options(mem vfs.FS) brock.Options {
	o := brock.Options{Dir: "db", FS: mem, FeedRetention: brock.FeedRetention{Bytes: 1 << 40}}
	o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 256 << 10, RunFileSize: 64 << 10}
	o.KeyspaceDefaults.Versions.Age = time.Hour
	o.KeyspaceDefaults.Compression = brock.S2
	return o
}

// TestRebuild: a replica that is made of the feed alone is the source, after each commit, whatever
// happens to the files, over stops of the consumer and of the store at any place.
func TestRebuild(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	kinds := map[brock.ChangeKind]int{}
	for round := range rounds {
		r := draw.Rand(t)
		mem := vfs.NewMem()
		o := options(mem)
		if r.IntN(2) == 0 {
			o.Keys = storetest.MasterKey(1)
		}
		db := assert.Must(brock.Open(o))
		w := &writer{t: t, r: r, db: db, expires: time.Now().Add(time.Hour), large: true}
		rep := newReplica()
		rep.pull(t, db, brock.WatchOptions{}, 1, nil) // tells the position of the empty store
		for step := range 150 {
			w.step()
			switch r.IntN(8) {
			case 0: // one state after the other
				assert.OK(t, db.Sync(t.Context()))
				rep.pull(t, db, brock.WatchOptions{}, -1, func() {
					if got, want := defaultOnly(rep), contents(t, db, rep.at.Version(), false); rep.at.Version() > 0 && got != want {
						t.Fatalf("round %d, step %d: version %d is\n%s\nwant\n%s", round, step, rep.at.Version(), got, want)
					}
				})
				assert.SameText(t, fmt.Sprintf("round %d, step %d", round, step), rep.text(), contents(t, db, 0, true))
			case 1: // some commits, and on from there, by text
				rep.pull(t, db, brock.WatchOptions{}, 1+r.IntN(3), nil)
				rep.at = assert.Must(brock.ParsePosition(rep.at.String()))
			case 2:
				if r.IntN(4) == 0 {
					assert.OK(t, db.Close())
					db = assert.Must(brock.Open(o))
					w.db = db
				}
			}
		}
		assert.OK(t, db.Sync(t.Context()))
		rep.pull(t, db, brock.WatchOptions{}, -1, nil)
		assert.SameText(t, fmt.Sprintf("round %d, end", round), rep.text(), contents(t, db, 0, true))
		assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
		assert.OK(t, db.Close())
		for k, n := range rep.kinds {
			kinds[k] += n
		}
	}
	t.Log(kinds)
	for k := brock.ChangeSet; k <= brock.ChangeKeyspaceDropped; k++ {
		if kinds[k] == 0 {
			t.Errorf("no change of kind %v", k)
		}
	}
}

func defaultOnly(r *replica) string {
	return (&replica{keyspaces: map[string]map[string]string{"": r.keyspaces[""]}}).text()
}

// TestSnapshotThenTail: a replica that begins with a snapshot, while others commit, has the same.
func TestSnapshotThenTail(t *testing.T) {
	r := draw.Rand(t)
	db := storetest.Open(t, options(vfs.NewMem()))
	w := &writer{t: t, r: r, db: db, expires: time.Now().Add(time.Hour)}
	for range 100 {
		w.step()
	}
	rep := newReplica()
	first := true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for c, err := range db.Watch(ctx, brock.WatchOptions{Snapshot: true}) {
		assert.OK(t, err)
		if c.Snapshot != first {
			t.Fatalf("version %d: snapshot %v", c.Version, c.Snapshot)
		}
		if first {
			for range 30 {
				w.step() // beside the snapshot
			}
			assert.OK(t, db.Sync(t.Context()))
		}
		rep.apply(t, c)
		first = false
		if c.Caught && c.Version == db.Version() {
			break
		}
	}
	assert.SameText(t, "replica", rep.text(), contents(t, db, 0, true))
}
