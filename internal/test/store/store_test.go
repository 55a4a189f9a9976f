package store

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	truth "github.com/brockdb/brock/internal/test/model"
	"github.com/brockdb/brock/vfs"
)

// randomStore is a store of some keyspaces whose data lies in memtables and runs, with a model
// of each keyspace.
type randomStore struct {
	t      *testing.T
	r      *rand.Rand
	o      brock.Options
	db     *brock.DB
	kept   bool // all history is retained
	heavy  bool // many values are so long that journal segments stay as value segments
	clock  *storetest.Clock
	times  map[uint64]int64 // of versions
	spaces []*space
	open   []*brock.Txn // read-only ones that began while the store was filled
	n      int          // values so far
	log    []string     // of steps
}

// space is a keyspace, its model, and the keys that are drawn for it.
type space struct {
	ks        *brock.Keyspace // nil: the default one
	label     string
	age       time.Duration // of its retention,
	since     uint64        // from this version on
	m         truth.Store
	keys      func(r *rand.Rand) string
	ordered   bool // orderedKey is among the keys
	long      bool // keys are so long that read sets are noted coarsely
	threshold int
	ranges    int // of 16 writes, range deletes
}

func orderedKey(i int) string { return fmt.Sprintf("o%04d", i) }

const orderedKeys = 600

// families are kinds of keys: letters, numbers in order, bytes at both ends, keys that begin with
// one another, and long ones.
var families = []func(r *rand.Rand) string{
	storetest.DrawKey,
	func(r *rand.Rand) string { return orderedKey(r.IntN(orderedKeys)) },
	func(r *rand.Rand) string {
		return strings.Repeat([]string{"\x00", "\xff"}[r.IntN(2)], 1+r.IntN(9)) + strings.Repeat("\xff\x00"[:1+r.IntN(2)], r.IntN(2))
	},
	func(r *rand.Rand) string {
		return strings.Repeat("p", 1+r.IntN(30)) + strings.Repeat("\x00", r.IntN(2))
	},
	func(r *rand.Rand) string {
		return strings.Repeat("l", []int{1, 15, 128, 129, 60 << 10}[r.IntN(5)]) + string(rune('a'+r.IntN(3)))
	},
}

func newRandomStore(t *testing.T, r *rand.Rand, keys brock.KeyProvider) *randomStore {
	s := &randomStore{t: t, r: r, clock: storetest.NewClock(1_800_000_000_000), times: map[uint64]int64{}, kept: r.IntN(2) == 0}
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	if r.IntN(3) == 0 {
		fs.Inject(faultfs.Fault{Kinds: faultfs.Map, Times: faultfs.Always})
	}
	defaults := brock.KeyspaceOptions{ValueThreshold: []int{6, 64, 512, -1}[r.IntN(4)]}
	if s.kept {
		defaults.Versions.Age = time.Hour
	}
	s.o = brock.Options{
		Dir: "db", FS: fs, Keys: keys, Durability: brock.Buffered, Now: s.clock.Now,
		KeyspaceDefaults: defaults, CopyValues: r.IntN(4) == 0, VerifyReads: r.IntN(4) == 0,
		Tuning:      brock.Tuning{MemtableSize: 64 << 10, RunFileSize: 64 << 10, SegmentSize: 64 << 10},
		Maintenance: brock.Maintenance{IdleAfter: []time.Duration{time.Millisecond, time.Hour}[r.IntN(2)]},
	}
	if s.heavy = r.IntN(5) == 0; s.heavy {
		s.o.Tuning.SegmentSize = 8 << 20
	}
	db, err := brock.Open(s.o)
	assert.OK(t, err)
	s.db = db
	t.Cleanup(func() { assert.OK(t, s.db.Close()) })
	s.spaces = []*space{{threshold: defaults.ValueThreshold, age: defaults.Versions.Age}}
	s.spaces[0].draw(r)
	for i := range r.IntN(3) {
		s.addSpace(fmt.Sprint("space", i))
	}
	return s
}

func (s *randomStore) space() *space { return s.spaces[s.r.IntN(len(s.spaces))] }

func (s *randomStore) spaceOptions() brock.KeyspaceOptions {
	r := s.r
	return brock.KeyspaceOptions{ValueThreshold: []int{6, 64, 512, -1}[r.IntN(4)], Compression: brock.Compression(r.IntN(4)), CompressAbove: []int{0, 1, 64}[r.IntN(3)]}
}

func (s *randomStore) addSpace(name string) {
	o := s.spaceOptions()
	x := &space{ks: storetest.OpenKeyspace(s.t, s.db, name, o), label: name, threshold: o.ValueThreshold}
	x.draw(s.r)
	x.m.CommitAt(s.db.Version())
	s.keyspacesChanged()
	x.age, x.since = s.o.KeyspaceDefaults.Versions.Age, s.db.Version()
	s.spaces = append(s.spaces, x)
}

// keyspacesChanged notes the version that a keyspace has taken which was made or dropped.
func (s *randomStore) keyspacesChanged() { s.spaces[0].m.CommitAt(s.db.Version()) }

func (x *space) draw(r *rand.Rand) {
	x.ranges = []int{1, 1, 6}[r.IntN(3)]
	family := r.IntN(len(families))
	x.keys, x.ordered, x.long = families[family], family == 1, family == len(families)-1
}

// name is that of the keyspace, "" for the default one.
func (x *space) name() string { return x.label }

func (s *randomStore) now() int64 { return s.clock.Millis.Load() }

// value draws a value, often as long as the threshold or nearly so.
func (s *randomStore) value(x *space) string {
	s.n++
	n := []int{0, 1, s.r.IntN(100), 63, 64, 65, x.threshold - 1, x.threshold, x.threshold + 1, s.r.IntN(3000)}[s.r.IntN(10)]
	if s.heavy && s.r.IntN(3) == 0 {
		n = 50_000 + s.r.IntN(250_000)
	}
	v := fmt.Sprintf("%d %x ", s.n, s.r.Uint64())
	if n < 50_000 && s.r.IntN(2) == 0 {
		for len(v) < n {
			v += fmt.Sprintf("%x", s.r.Uint64())
		}
	}
	return strings.Repeat(v, max(n, 0)/len(v)+1)[:max(n, 0)]
}

// write draws a write to a keyspace.
func (s *randomStore) write(x *space) truth.Write {
	w := truth.Write{Key: x.keys(s.r)}
	switch n := s.r.IntN(16); {
	case n < x.ranges:
		w.Range = &truth.Range{Lower: w.Key, Upper: x.keys(s.r)}
		if s.r.IntN(8) == 0 {
			w.Range.Upper = ""
		}
		if w.Range.Empty() {
			w.Range.Lower, w.Range.Upper = w.Range.Upper, w.Range.Lower+"\x00"
		}
	case n < 3+x.ranges:
		w.Delete = true
	default:
		w.Value, w.Meta = s.value(x), byte(s.r.IntN(3))
		switch s.r.IntN(12) {
		case 0:
			w.Expires, w.Meta = uint64(s.now()-1000+int64(s.r.IntN(3))*1000), 0
		case 1:
			w.Expires = uint64(s.now() + 1 + int64(s.r.IntN(1e6)))
		}
	}
	return w
}

// takesWrites is a transaction or a batch.
type takesWrites interface {
	SetEntry(e *brock.Entry) error
	Delete(key []byte) error
	DeleteRange(lo, hi []byte) error
}

func (s *randomStore) apply(to takesWrites, w truth.Write) {
	s.t.Helper()
	switch {
	case w.Range != nil && w.Range.Upper == "":
		assert.OK(s.t, to.DeleteRange([]byte(w.Range.Lower), nil))
	case w.Range != nil:
		assert.OK(s.t, to.DeleteRange([]byte(w.Range.Lower), []byte(w.Range.Upper)))
	case w.Delete:
		assert.OK(s.t, to.Delete([]byte(w.Key)))
	default:
		assert.OK(s.t, to.SetEntry(entryOf(w)))
	}
}

// entryOf is the entry of a write that sets a key.
func entryOf(w truth.Write) *brock.Entry {
	e := brock.NewEntry([]byte(w.Key), []byte(w.Value)).WithMeta(w.Meta)
	if w.Expires != 0 {
		e.WithExpiry(time.UnixMilli(int64(w.Expires)))
	}
	return e
}

// load loads those of the writes that set keys, and returns what that commits: nothing if none does.
func (s *randomStore) load(x *space, writes []truth.Write) (loaded []truth.Write) {
	s.t.Helper()
	o := brock.LoadOptions{Sorted: s.r.IntN(2) == 0, Replace: s.r.IntN(8) == 0, MaxMemory: []int64{0, 1, 3000}[s.r.IntN(3)]}
	sets := slices.DeleteFunc(slices.Clone(writes), func(w truth.Write) bool { return w.Range != nil || w.Delete })
	if o.Sorted {
		slices.SortStableFunc(sets, func(a, b truth.Write) int { return cmp.Compare(a.Key, b.Key) })
		sets = slices.CompactFunc(sets, func(a, b truth.Write) bool { return a.Key == b.Key })
	}
	ks := x.ks
	if ks == nil {
		ks = s.db.Default()
	}
	l := assert.Must(ks.NewLoader(s.t.Context(), o))
	if o.Replace {
		loaded = append(loaded, truth.Write{Range: &truth.Range{}})
	}
	for _, w := range sets {
		assert.OK(s.t, l.SetEntry(entryOf(w)))
	}
	if s.r.IntN(8) == 0 {
		l.Abort()
		return nil
	}
	assert.Must(l.Finish())
	return append(loaded, sets...)
}

// commit writes to some keyspaces in one commit.
func (s *randomStore) commit(x *space, writes ...truth.Write) {
	s.t.Helper()
	if s.r.IntN(6) == 0 {
		if loaded := s.load(x, writes); len(loaded) > 0 {
			s.committed(x, s.db.Version(), loaded)
			return
		}
	}
	if s.r.IntN(2) == 0 {
		batch := s.db.NewBatch()
		for _, w := range writes {
			s.apply(batch.In(x.ks), w)
		}
		assert.Must(batch.Commit(s.t.Context(), 0))
	} else {
		o := brock.TxnOptions{MaxMemory: []int64{0, 0, 0, 1, 3000}[s.r.IntN(5)]}
		assert.OK(s.t, s.db.UpdateContext(s.t.Context(), o, func(txn *brock.Txn) error {
			for _, w := range writes {
				s.apply(txn.In(x.ks), w)
			}
			return nil
		}))
	}
	s.committed(x, s.db.Version(), writes)
}

// committed tells the models of a commit.
func (s *randomStore) committed(x *space, version uint64, writes []truth.Write) {
	s.times[version] = s.now()
	for _, y := range s.spaces {
		if y == x {
			y.m.CommitAt(version, writes...)
		} else {
			y.m.CommitAt(version)
		}
	}
}

// fill writes, flushes and compacts, and leaves readers open.
func (s *randomStore) fill() {
	for range 10 + s.r.IntN(40) {
		x := s.space()
		switch n := s.r.IntN(20); {
		case n == 0:
			assert.OK(s.t, s.db.Flush(s.t.Context()))
		case n == 1 && s.r.IntN(2) == 0:
			assert.OK(s.t, s.db.Compact(s.t.Context()))
		case n == 2: // a long history of one key
			key := x.keys(s.r)
			for range 10 + s.r.IntN(30) {
				s.commit(x, truth.Write{Key: key, Value: s.value(x)})
			}
		case n < 6 && x.ordered:
			s.sweep(x)
		case n == 6 && len(s.open) < 3:
			txn, err := s.db.Begin(s.t.Context(), brock.TxnOptions{})
			assert.OK(s.t, err)
			s.open = append(s.open, txn)
		default:
			var writes []truth.Write
			for range 1 + s.r.IntN(6) {
				writes = append(writes, s.write(x))
			}
			s.commit(x, writes...)
		}
	}
}

// sweep sets or deletes keys in their order: by one commit, or one each.
func (s *randomStore) sweep(x *space) {
	from, n := s.r.IntN(orderedKeys), 20+s.r.IntN(400)
	remove, together := s.r.IntN(2) == 0, s.r.IntN(3) > 0
	var writes []truth.Write
	for i := range n {
		w := truth.Write{Key: orderedKey((from + i) % orderedKeys), Delete: remove}
		if !remove {
			w.Value = s.value(x)
		}
		writes = append(writes, w)
	}
	if together {
		s.commit(x, writes...)
		return
	}
	for _, w := range writes[:n/2] {
		s.commit(x, w)
	}
}

// inRandomStores runs fn with one store after the other: few with -short, many with -every.
func inRandomStores(t *testing.T, rounds, short int, fn func(s *randomStore)) {
	switch {
	case *storetest.Every:
		rounds *= 10
	case testing.Short():
		rounds = short
	}
	seed := draw.Seed(t)
	for round := range rounds {
		if deadline.Near(t) {
			return
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			var keys brock.KeyProvider
			if r.IntN(3) == 0 && *storetest.KeysFlag != "none" || *storetest.KeysFlag == "all" {
				keys = storetest.MasterKey(1)
			}
			s := newRandomStore(t, r, keys)
			fn(s)
			if t.Failed() {
				t.Logf("last steps: %s", strings.Join(s.log[max(0, len(s.log)-25):], "; "))
			}
		})
		if t.Failed() {
			return
		}
	}
}

func (s *randomStore) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}
