package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/model"
	"github.com/brockdb/brock/vfs"
)

// world is a store and its model. A random program does the same to both.
type world struct {
	t    testing.TB
	rng  *rand.Rand
	name string // the command that runs it again
	log  []string

	mem   *vfs.Mem // nil if the store is in memory
	wrap  func(vfs.FS) vfs.FS
	files *handles
	o     brock.Options
	left  []brock.Options // of checkpoints, or of their sources
	db    *brock.DB

	backups  [][]byte          // a full one, and those that follow it
	backedUp *brock.BackupInfo // of the last one
	m        model.Store
	safe     uint64 // versions that survive a loss of power

	now, latest int64            // clock, and its latest time ever
	clock       atomic.Int64     // now, for background work
	times       map[uint64]int64 // of versions
	timid       bool             // the clock goes back at times
	heavy       bool             // many values are so long that journal segments stay as value segments
	wentBack    bool             // it has
	writers     []*openTxn       // open updates
	readers     []*openTxn       // open read-only transactions
	spurious    int              // conflicts that the model doesn't see
	commits     int
	conflicts   int
	crashes     int
	works       works
	fed         replica
}

// openTxn is a transaction and its model.
type openTxn struct {
	txn       *brock.Txn
	m         *model.Txn
	at        uint64
	commitAt  uint64 // TxnOptions.CommitAt
	isolation brock.Isolation
	synced    bool
	wrote     []model.Write
	points    []savedPoint
	its       []*openIterator
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	last := w.log[max(0, len(w.log)-25):]
	w.t.Fatalf("%s\nreplay: %s\nlast operations:\n  %s", fmt.Sprintf(format, args...), w.name, strings.Join(last, "\n  "))
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%d: ", len(w.log))+fmt.Sprintf(format, args...))
}

func (w *world) must(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.fatalf("%s: %v", what, err)
	}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// newWorld chooses options.
func newWorld(t testing.TB, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0x6d657461))
	w := &world{t: t, rng: rng, now: 1_700_000_000_000, times: map[uint64]int64{}, wrap: func(fs vfs.FS) vfs.FS { return fs }}
	w.latest = w.now
	w.clock.Store(w.now)
	w.timid = rng.IntN(5) == 0
	w.o = brock.Options{
		Durability: pick(rng, brock.Synced, brock.Buffered),
		Tuning: brock.Tuning{
			MemtableSize: pick[int64](rng, 64<<10, 128<<10),
			SegmentSize:  pick[int64](rng, 64<<10, 1<<20, 0),
			RunFileSize:  pick[int64](rng, 64<<10, 0),
		},
		Maintenance: brock.Maintenance{IdleAfter: pick(rng, 0, 0, time.Millisecond)},
		KeyspaceDefaults: brock.KeyspaceOptions{
			ValueThreshold: pick(rng, -1, 64, 0, 0),
			TTL:            pick(rng, 0, 0, 20*time.Second),
			Versions: brock.Retention{
				Versions: pick(rng, 0, 0, 3),
				Age:      pick(rng, 0, 0, 10*time.Second),
			},
		},
		FeedRetention: brock.FeedRetention{Bytes: pick[int64](rng, 0, 1<<40)},
		Now:           func() time.Time { return time.UnixMilli(w.clock.Load()) },
	}
	w.works.count(&w.o.Events)
	if w.heavy = rng.IntN(10) == 0; w.heavy {
		w.o.Tuning.SegmentSize = pick[int64](rng, 8<<20, 0)
	}
	if rng.IntN(8) == 0 {
		w.o.InMemory = true
	} else {
		w.mem = vfs.NewMem()
		w.o.Dir, w.o.Keys = "db", keysOf(seed)
		if rng.IntN(3) == 0 {
			w.o.ValueDir = "values"
		}
		if rng.IntN(3) == 0 {
			w.wrap = withoutMap
		}
	}
	w.open()
	return w
}

func (w *world) open() {
	// Options that may change with each Open.
	w.o.KeyspaceDefaults.Compression = pick(w.rng, brock.NoCompression, brock.S2, brock.Zstd)
	w.o.KeyspaceDefaults.CompressAbove = pick(w.rng, 0, 1, 200)
	if w.mem != nil {
		w.files = countHandles(w.mem)
		if w.o.Keys != nil {
			w.files.secrets = &secrets{rare: []string{rareValue, "longlonglonglong"}}
		}
		w.o.FS = w.wrap(w.files)
	}
	db, err := brock.Open(w.o)
	w.must("open", err)
	w.db = db
}

// key returns one of a few keys, some of them difficult.
func (w *world) key() string {
	switch n := w.rng.IntN(42); {
	case n < 30:
		return fmt.Sprintf("%c%02d", 'a'+n%3, n/3)
	case n < 34:
		return "b" + strings.Repeat("\x00", n-29)
	case n < 37:
		return strings.Repeat("\xff", n-33)
	case n == 37:
		return "\x00"
	case n >= 40:
		return ""
	case n == 38:
		return strings.Repeat("long", 700)
	default:
		return "b\xff\xff"
	}
}

func (w *world) value() string {
	n := pick(w.rng, 0, 1, 10, 63, 64, 65, 200, 511, 512, 700, 700, 5000)
	if w.rng.IntN(100) == 0 {
		n = 70_000
	}
	if w.heavy && w.rng.IntN(4) > 0 {
		n = 400_000 + w.rng.IntN(700_000)
	}
	v := text(fmt.Sprint(len(w.log)), len(w.log), n)
	if w.rng.IntN(2) == 0 { // compressible
		v = strings.Repeat(v[:min(n, 20)], n/20+1)
	}
	if v = v[:n]; n >= 63 {
		v = rareValue + v[len(rareValue):]
	}
	return v
}

// write chooses a write, and its Entry if it is made by one.
func (w *world) write() (model.Write, *brock.Entry) {
	if w.rng.IntN(20) == 0 {
		return w.rangeWrite(), nil
	}
	return w.pointWrite()
}

// rangeWrite returns a range delete, seldom of everything.
func (w *world) rangeWrite() model.Write {
	r := &model.Range{}
	if w.rng.IntN(6) > 0 {
		r.Lower = w.key()
	}
	if w.rng.IntN(6) > 0 {
		r.Upper = w.key()
	}
	return model.Write{Range: r}
}

// bounds returns the bounds of r as the store takes them.
func bounds(r model.Range) (lo, hi []byte) {
	if r.Lower != "" {
		lo = []byte(r.Lower)
	}
	if r.Upper != "" {
		hi = []byte(r.Upper)
	}
	return lo, hi
}

func (w *world) pointWrite() (model.Write, *brock.Entry) {
	k := w.key()
	if w.rng.IntN(5) == 0 {
		return model.Write{Key: k, Delete: true}, nil
	}
	v := w.value()
	m := model.Write{Key: k, Value: v}
	e := brock.NewEntry([]byte(k), []byte(v))
	if w.rng.IntN(4) == 0 {
		m.Meta = byte(w.rng.IntN(256))
		e.WithMeta(m.Meta)
	}
	switch n := w.rng.IntN(12); {
	case n == 0:
		ttl := time.Duration(1+w.rng.IntN(30_000)) * time.Millisecond
		e.WithTTL(ttl)
		m.Expires = uint64(w.now + ttl.Milliseconds())
	case n == 1:
		at := w.now + int64(w.rng.IntN(20_000)) - 5000
		e.WithExpiry(time.UnixMilli(at))
		m.Expires = uint64(at)
	default:
		m.Expires = w.defaultExpiry()
	}
	if w.rng.IntN(10) == 0 {
		m.Latest = true
		e.WithOnlyLatest()
	}
	return m, e
}

func (w *world) defaultExpiry() uint64 {
	if ttl := w.o.KeyspaceDefaults.TTL; ttl > 0 {
		return uint64(w.now + ttl.Milliseconds())
	}
	return 0
}

type setter interface {
	SetEntry(e *brock.Entry) error
	Delete(key []byte) error
}

func (w *world) apply(to setter, m model.Write, e *brock.Entry) {
	if m.Range != nil {
		lo, hi := bounds(*m.Range)
		w.must("delete range", to.(interface{ DeleteRange(lo, hi []byte) error }).DeleteRange(lo, hi))
		clear(lo) // they were copied
		clear(hi)
		return
	}
	if m.Delete {
		w.must("delete", to.Delete([]byte(m.Key)))
		return
	}
	w.must("set", to.SetEntry(e))
	clear(e.Key) // it was copied
	clear(e.Value)
}

// committed applies writes to the model that the store has just committed.
func (w *world) committed(synced bool, writes ...model.Write) {
	w.commits++
	v := w.db.Version()
	if v <= w.m.Last() {
		w.fatalf("version %d after %d", v, w.m.Last())
	}
	w.m.CommitAt(v, writes...)
	w.times[v] = w.now
	if synced {
		w.safe = v
	}
}

func (w *world) synced() bool { return w.o.Durability == brock.Synced }

// hazy reports whether a reader may or may not find e because the clock went back: e
// had expired before, and may have been dropped then.
func (w *world) hazy(e model.Entry) bool {
	return e.Expires != 0 && int64(e.Expires) <= w.latest && int64(e.Expires) > w.now
}

// anyHazy reports whether a reader at a version may meet a hazy entry.
func (w *world) anyHazy(at uint64) bool {
	if w.now == w.latest {
		return false
	}
	for e := range w.m.Scan(model.Scan{}, at, uint64(w.now)) {
		if w.hazy(e) {
			return true
		}
	}
	return false
}

// same compares an item with an entry of the model.
func (w *world) same(what string, item *brock.Item, e model.Entry) {
	w.t.Helper()
	v, err := item.Value()
	if err != nil && !(e.Deleted && errors.Is(err, brock.ErrKeyNotFound)) {
		w.fatalf("%s: value of %.40q version %d: %v", what, e.Key, e.Version, err)
	}
	expires := uint64(0)
	if at := item.ExpiresAt(); !at.IsZero() {
		expires = uint64(at.UnixMilli())
	}
	if string(item.Key()) != e.Key || string(v) != e.Value || item.Version() != e.Version || item.Meta() != e.Meta ||
		item.Deleted() != e.Deleted || expires != e.Expires || item.ValueSize() != int64(len(e.Value)) {
		w.fatalf("%s: got %.40q=%s version %d meta %d deleted %v expires %d, want %.40q=%s version %d meta %d deleted %v expires %d", what,
			item.Key(), brief(string(v)), item.Version(), item.Meta(), item.Deleted(), expires,
			e.Key, brief(e.Value), e.Version, e.Meta, e.Deleted, e.Expires)
	}
}

// sameState compares all that a transaction sees with the model at a version.
func (w *world) sameState(what string, txn *brock.Txn, at uint64) {
	w.t.Helper()
	var want []model.Entry
	hazy := map[string]bool{}
	for e := range w.m.Scan(model.Scan{}, at, uint64(w.now)) {
		if w.hazy(e) {
			hazy[e.Key] = true
		}
		want = append(want, e)
	}
	i := 0
	for item, err := range txn.All() {
		w.must(what, err)
		for i < len(want) && hazy[want[i].Key] && string(item.Key()) > want[i].Key {
			i++
		}
		if i == len(want) {
			w.fatalf("%s at %d: %.40q version %d is there and should not be", what, at, item.Key(), item.Version())
		}
		w.same(fmt.Sprintf("%s at %d", what, at), item, want[i])
		i++
	}
	for i < len(want) && hazy[want[i].Key] {
		i++
	}
	if i < len(want) {
		w.fatalf("%s at %d: %.40q version %d is missing", what, at, want[i].Key, want[i].Version)
	}
}

func (w *world) checkAll(what string) {
	w.t.Helper()
	w.must(what, w.db.View(func(txn *brock.Txn) error {
		w.sameState(what, txn, w.m.Last())
		return nil
	}))
}

// endAll ends everything that is open.
func (w *world) endAll() {
	for len(w.writers) > 0 {
		w.discard(w.writers[0])
	}
	for len(w.readers) > 0 {
		w.discard(w.readers[0])
	}
}

func (w *world) discard(x *openTxn) {
	for _, it := range x.its {
		if w.rng.IntN(2) == 0 {
			w.must("close iterator", it.it.Close())
		}
	}
	x.txn.Discard()
	for _, it := range x.its { // open iterators release their pins at their next use
		it.it.Next()
		if it.it.Valid() || it.it.Err() == nil {
			w.fatalf("an iterator goes on after its transaction")
		}
	}
	w.drop(x)
}

func (w *world) drop(x *openTxn) {
	for _, list := range []*[]*openTxn{&w.writers, &w.readers} {
		for i, y := range *list {
			if x == y {
				*list = append((*list)[:i:i], (*list)[i+1:]...)
				return
			}
		}
	}
}

// close closes the store, perhaps before its readers end.
func (w *world) close() {
	w.must("close", w.db.Close())
	w.endAll()
	if w.files != nil && w.files.leaks() != "" {
		w.fatalf("left open: %s", w.files.leaks())
	}
}

// reopen closes and opens the store.
func (w *world) reopen() {
	if w.mem == nil {
		return
	}
	w.note("reopen")
	if w.rng.IntN(2) == 0 {
		w.endAll()
	}
	version := w.db.Version()
	w.close()
	w.safe = w.m.Last()
	w.open()
	if v := w.db.Version(); v != version {
		w.fatalf("opened at version %d, closed at %d", v, version)
	}
	w.checkAll("opened again")
	w.checkFed("opened again")
}

// crash crashes the store and opens what is left.
func (w *world) crash() {
	if w.mem == nil {
		return
	}
	mode, seed := vfs.CrashMode(w.rng.IntN(4)), w.rng.Uint64()
	w.note("crash %s", modeName(mode))
	w.endAll()
	left := w.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed})
	w.close()
	w.mem = left
	w.open()
	w.crashes++
	least := w.safe
	if mode == vfs.All {
		least = w.m.Last()
	}
	w.forget(least)
	if w.rng.IntN(2) == 0 {
		w.must("verify after a crash", w.db.Verify(context.Background(), nil))
	}
	w.checkAll("after a crash")
	w.checkFed("after a crash")
	w.safe = w.m.Last()
}

// forget finds out which commits have survived a crash, and has the model forget the
// others. Those up to least must have survived.
func (w *world) forget(least uint64) {
	got := map[string]uint64{}
	w.must("read after a crash", w.db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{AllVersions: true}) {
			if err != nil {
				return err
			}
			least = max(least, item.Version())
		}
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			got[string(item.Key())] = item.Version()
		}
		return nil
	}))
	v := w.db.Version()
	if v < least || v > w.m.Last() || w.times[v] == 0 && v != least {
		w.fatalf("after a crash the store is at version %d, want a commit from %d to %d", v, least, w.m.Last())
	}
	n := 0
	for e := range w.m.Scan(model.Scan{}, v, uint64(w.now)) {
		if got[e.Key] == e.Version {
			n++
		} else if !w.hazy(e) {
			w.fatalf("after a crash %.40q has version %d, want %d at version %d", e.Key, got[e.Key], e.Version, v)
		}
	}
	if n != len(got) {
		w.fatalf("after a crash the store has %d keys at version %d, want %d", len(got), v, n)
	}
	w.note("survived: %d of %d", v, w.m.Last())
	w.m.Forget(v)
}
