package scan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
	"github.com/brockdb/brock/vfs"
)

const testSeed = 42

// store is an engine and what commits to it.
type store struct {
	t testing.TB
	*engine.Engine
	commits *commit.Pipeline
	encoder pending.Encoder
}

func newStore(t testing.TB) *store {
	t.Helper()
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("/s"))
	if err := manifest.MakeDirs(manifest.Options{FS: fs, Dir: "/s"}); err != nil {
		t.Fatal(err)
	}
	log, err := manifest.CreateStore(manifest.Options{FS: fs, Dir: "/s"}, manifest.CreateOptions{Seed: testSeed, Created: 1})
	must(t, err)
	e, _, err := engine.Open(engine.Config{
		OpenerConfig: view.OpenerConfig{Store: filename.Store{FS: fs, Dir: "/s", ValueDir: "/s", Seed: testSeed}, RunFileBytes: 8 << 20},
		Sizes:        engine.Sizes{MemtableBytes: 8 << 20, JournalBytes: 64 << 20, SegmentBytes: 32 << 20},
		Maintenance:  engine.Maintenance{IdleAfter: time.Hour}, Now: time.Now, Jobs: jobs.New(jobs.Options{Workers: 1}),
		Exclusive:   func(_ context.Context, fn func() error) error { return fn() },
		PastDeletes: PastDeletes,
		Events:      engine.Events{OnWork: func(engine.Work) {}, OnLongReader: func(report.Reader) {}},
	}, log)
	must(t, err)
	e.Start()
	t.Cleanup(func() { must(t, e.Close()) })
	return &store{
		t: t, Engine: e, commits: commit.New(commit.Config{Store: commit.Over(e.Commits, e.Views), Journal: e.Journal, HashSeed: testSeed}),
		encoder: pending.Encoder{Prefix: []byte{0}, Threshold: 512, Seed: testSeed, CompressAbove: 1, Compression: new(pending.Compression)},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// set adds pairs, each of them a key that is its own value, to w.
func (s *store) set(w *pending.Writes, keys ...string) {
	for _, k := range keys {
		w.Add(&s.encoder, &entry.Entry{Key: []byte(k), Value: []byte(k), Kind: entry.Set})
	}
}

func (s *store) commit(w *pending.Writes) {
	s.t.Helper()
	payload, n := w.Payload()
	_, err := s.commits.Commit(s.t.Context(), &commit.Request{Payload: payload, Records: n, Ranges: w.RangesInPayload(),
		Check: commit.Check{Isolation: commit.LastWriterWins}})
	must(s.t, err)
}

func stored(key string) []byte { return append([]byte{0}, key...) }

// begin begins a scan of all keys.
func (s *store) begin(c Config) *Scan {
	s.t.Helper()
	var err error
	c.Pin, err = s.Views.Acquire(0)
	must(s.t, err)
	c.At, c.Lo, c.Hi, c.Prefix = c.Pin.Version(), []byte{0}, []byte{1}, 1
	n := Begin(&c)
	s.t.Cleanup(func() {
		n.Close()
		n.FreeMemory()
		c.Pin.Release()
	})
	return n
}

// counting counts the moves of a source.
type counting struct {
	iterator.Iterator
	moves int
}

func (c *counting) Next() bool { c.moves++; return c.Iterator.Next() }
func (c *counting) Prev() bool { c.moves++; return c.Iterator.Prev() }
func (c *counting) SkipGE(key []byte, v entry.Version) bool {
	c.moves++
	return c.Iterator.SkipGE(key, v)
}
func (c *counting) SkipLT(key []byte, v entry.Version) bool {
	c.moves++
	return c.Iterator.SkipLT(key, v)
}
func (c *counting) SkipNewer(v entry.Version) bool {
	c.moves++
	return c.Iterator.SkipNewer(v)
}

// A key with a long history costs a walk a few moves, in each direction, for readers
// of any age.
func TestLongHistoriesAreSkipped(t *testing.T) {
	s := newStore(t)
	var readers []*Scan
	begin := func() {
		scan := s.begin(Config{})
		count := &counting{Iterator: scan.walk.src}
		scan.walk.src = count
		readers = append(readers, scan)
	}
	const versions = 4000
	for i := range versions {
		var w pending.Writes
		if i == 0 {
			s.set(&w, "a", "z")
		}
		s.set(&w, "hot")
		s.commit(&w)
		if i%1000 == 10 || i == versions-1 {
			begin()
		}
	}
	for _, scan := range readers {
		count := scan.walk.src.(*counting)
		at := func(what string, ok bool, want string) {
			t.Helper()
			if !ok || string(scan.Entry().Key[1:]) != want || want == "hot" && scan.Entry().Version != scan.cfg.Pin.Version() {
				t.Errorf("reader at %d, %s: %v, %+v; want %s", scan.cfg.Pin.Version(), what, ok, scan.Entry(), want)
			}
			if count.moves > 60 {
				t.Errorf("reader at %d, %s: %d moves", scan.cfg.Pin.Version(), what, count.moves)
			}
			count.moves = 0
		}
		at("seek", scan.Seek(stored("b"), false), "hot")
		at("next", scan.Move(false), "z")
		at("back", scan.Move(true), "hot")
		at("back again", scan.Move(true), "a")
		at("forward again", scan.Move(false), "hot")
		at("seek back", scan.Seek(stored("y"), true), "hot")
		at("back", scan.Move(true), "a")
		at("seek", scan.Seek(stored("b"), false), "hot")
		at("backward", scan.Move(true), "a")
	}
}

// A walk into a deleted range passes over it at once, in both directions,
// wherever entries and range delete are, and finds what was written since.
func TestDeletedRangesAreSkipped(t *testing.T) {
	for _, flush := range []string{"", "entries", "both"} {
		s := newStore(t)
		var all, deletes pending.Writes
		for i := range 20_000 {
			s.set(&all, fmt.Sprintf("k%06d", i))
		}
		s.commit(&all)
		if flush != "" {
			must(t, s.Work.Flush(t.Context()))
		}
		deletes.DeleteRange(stored("k000100"), stored("k019900"))
		s.set(&deletes, "k010000")
		reader := s.begin(Config{}) // keeps what is deleted
		s.commit(&deletes)
		if flush == "both" {
			must(t, s.Work.Flush(t.Context()))
		}
		for _, backward := range []bool{false, true} {
			scan := s.begin(Config{})
			count := &counting{Iterator: scan.walk.src}
			scan.walk.src = count
			from, want := "k000099", "[k000099 k010000 k019900]"
			if backward {
				from, want = "k019901", "[k019900 k010000 k000099]"
			}
			var keys []string
			for ok := scan.Seek(stored(from), backward); ok && len(keys) < 3; ok = scan.Move(backward) {
				keys = append(keys, string(scan.Entry().Key[1:]))
			}
			must(t, scan.Err())
			if got := fmt.Sprint(keys); got != want {
				t.Errorf("flushed %q, backward %v: %s, want %s", flush, backward, got, want)
			}
			if count.moves > 60 {
				t.Errorf("flushed %q, backward %v: %d moves", flush, backward, count.moves)
			}
		}
		if !reader.Seek(stored("k000100"), false) {
			t.Error("an older reader no longer sees what was deleted since")
		}
	}
}

// A scan sees what its transaction has written before the seek, and in its place.
func TestOwnWritesAreASource(t *testing.T) {
	s := newStore(t)
	var w, own pending.Writes
	own.Indexed = true
	s.set(&w, "a", "c", "e", "g")
	s.commit(&w)
	n := s.begin(Config{Writes: &own})
	show := func(backward bool) (got string) {
		from := stored("")
		if backward {
			from = []byte{1}
		}
		for ok := n.Seek(from, backward); ok; ok = n.Move(backward) {
			got += string(n.Entry().Key[1:])
		}
		must(t, n.Err())
		return got
	}
	want := func(forward, back string) {
		t.Helper()
		if got := show(false) + " " + show(true); got != forward+" "+back {
			t.Errorf("got %s, want %s %s", got, forward, back)
		}
	}
	want("aceg", "geca")
	s.set(&own, "b", "c", "h")
	want("abcegh", "hgecba")
	own.DeleteRange(stored("c"), stored("f"))
	want("abgh", "hgba")
	s.set(&own, "d")
	want("abdgh", "hgdba")
	n.Seek(stored("a"), false)
	s.set(&own, "aa")
	if !n.Move(false) || string(n.Entry().Key[1:]) != "b" {
		t.Errorf("after a comes %q, though aa was written after the seek", n.Entry().Key)
	}
}

// walkAll walks all keys and counts the moves.
func (s *store) walkAll(c Config, backward bool) (keys []string, moves int) {
	s.t.Helper()
	scan := s.begin(c)
	count := &counting{Iterator: scan.walk.store}
	if scan.walk.store = count; !c.All {
		scan.walk.src = count
	}
	from := stored("")
	if backward {
		from = []byte{1}
	}
	for ok := scan.Seek(from, backward); ok; ok = scan.Move(backward) {
		keys = append(keys, string(scan.Entry().Key[1:]))
	}
	must(s.t, scan.Err())
	return keys, count.moves
}

// What a walk has passed because it was deleted, in no order, the next one skips, in
// both directions, and sees what is set there later. A walk for which there may be
// another reason notes nothing.
func TestWalksNoteWhatDeletesHaveEmptied(t *testing.T) {
	const n = 3000
	own := &pending.Writes{Indexed: true}
	own.DeleteRange(stored("k002990"), stored("zz"))
	for _, c := range []struct {
		name     string
		first    Config
		backward bool
		notes    bool
	}{
		{name: "forward", notes: true},
		{name: "back", backward: true, notes: true},
		{name: "with a filter", first: Config{Filter: func(key []byte, _ byte) bool { return key[0] == 'a' }}, notes: true},
		{name: "with own writes", first: Config{Writes: own}, notes: true},
		{name: "since a version", first: Config{Since: 1}},
		{name: "all versions", first: Config{All: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t)
			var all pending.Writes
			for i := range n {
				s.set(&all, fmt.Sprintf("k%06d", i))
			}
			s.set(&all, "a", "z")
			s.commit(&all)
			must(t, s.Work.Flush(t.Context()))
			for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
				var one pending.Writes
				if key := fmt.Sprintf("k%06d", i); i%2 == 0 {
					one.Add(&s.encoder, &entry.Entry{Key: []byte(key), Kind: entry.Delete})
				} else {
					one.DeleteRange(stored(key), stored(key+"\x00"))
				}
				s.commit(&one)
			}
			s.walkAll(c.first, c.backward)
			for _, backward := range []bool{c.backward, !c.backward} {
				keys, moves := s.walkAll(Config{}, backward)
				if len(keys) != 2 || c.notes != (moves < 5*streakBegins) {
					t.Errorf("backward %v: %d keys after %d moves", backward, len(keys), moves)
				}
				if !c.notes {
					return // this one was a walk of the first kind
				}
			}
			var later pending.Writes
			s.set(&later, "k001500")
			s.commit(&later)
			for _, backward := range []bool{false, true} {
				if keys, _ := s.walkAll(Config{}, backward); len(keys) != 3 {
					t.Errorf("backward %v: %v", backward, keys)
				}
			}
		})
	}
}

// A walk notes what others have deleted between the transaction's own writes, but not
// what the transaction deletes: everybody else sees that, and so does it where it has
// ended without a commit.
func TestOwnDeletesAreNotNoted(t *testing.T) {
	const n = 16 * streakNoted
	key := func(i int) string { return fmt.Sprintf("k%06d", i) }
	skips := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 10))
		s := newStore(t)
		var all, gone pending.Writes
		own := &pending.Writes{Indexed: true}
		var live, mine [n]bool // what others see, and the transaction
		for i := range n {
			s.set(&all, key(i))
			live[i] = true
		}
		s.commit(&all)
		remove := func(w *pending.Writes, from, to int, ranges bool, shown ...*[n]bool) {
			for i := from; i < to; i++ {
				for _, m := range shown {
					m[i] = false
				}
				if !ranges {
					w.Add(&s.encoder, &entry.Entry{Key: []byte(key(i)), Kind: entry.Delete})
				}
			}
			if ranges {
				w.DeleteRange(stored(key(from)), stored(key(to)))
			}
		}
		// Rows of deleted keys, with a few live ones between them.
		for at := 0; at < n; {
			to := min(n, at+rng.IntN(6*streakNoted))
			remove(&gone, at, to, rng.IntN(3) == 0, &live)
			at = to + 1 + rng.IntN(4)
		}
		s.commit(&gone)
		mine = live
		for range 6 {
			at := rng.IntN(n - 20)
			remove(own, at, at+1+rng.IntN(20), rng.IntN(2) == 0, &mine)
			if at = rng.IntN(n); rng.IntN(2) == 0 {
				s.set(own, key(at))
				mine[at] = true
			}
		}
		for i := range n {
			// What the transaction deletes are live keys, mostly.
			if mine[i] && rng.IntN(3) > 0 {
				remove(own, i, i+1, rng.IntN(2) == 0, &mine)
			}
		}
		check := func(c Config, want *[n]bool, backward bool) (moves int) {
			t.Helper()
			got, moves := s.walkAll(c, backward)
			if backward {
				slices.Reverse(got)
			}
			var keys []string
			for i := range n {
				if want[i] {
					keys = append(keys, key(i))
				}
			}
			if !slices.Equal(got, keys) {
				t.Fatalf("seed %d, backward %v: %v, want %v", seed, backward, got, keys)
			}
			return moves
		}
		backward := rng.IntN(2) == 0
		first := check(Config{Writes: own}, &mine, backward)
		again := check(Config{Writes: own}, &mine, backward)
		if again < first {
			skips++
		}
		check(Config{}, &live, backward)
		check(Config{}, &live, !backward)
	}
	if skips < 10 {
		t.Errorf("only %d walks of 20 have noted something", skips)
	}
}

// Where a key has expired between deleted ones, readers whose clock stands still see
// it: it is not part of what a walk notes.
func TestExpiredKeysAreNotNoted(t *testing.T) {
	s := newStore(t)
	var all pending.Writes
	for i := range 2 * streakNoted {
		key := fmt.Appendf(nil, "k%06d", i)
		e := entry.Entry{Key: key, Value: key, Kind: entry.Set}
		if i == streakNoted+9 {
			e.Expires = 10
		}
		all.Add(&s.encoder, &e)
	}
	s.commit(&all)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(2 * streakNoted) {
		if i != streakNoted+9 {
			var one pending.Writes
			one.Add(&s.encoder, &entry.Entry{Key: fmt.Appendf(nil, "k%06d", i), Kind: entry.Delete})
			s.commit(&one)
		}
	}
	for _, backward := range []bool{false, true} {
		if keys, _ := s.walkAll(Config{Clock: clock(20)}, backward); len(keys) != 0 {
			t.Errorf("backward %v: %v have expired", backward, keys)
		}
	}
	for _, backward := range []bool{false, true} {
		if keys, _ := s.walkAll(Config{Clock: clock(5)}, backward); len(keys) != 1 {
			t.Errorf("backward %v: %v", backward, keys)
		}
	}
}

type clock uint64

func (c clock) Now() uint64 { return uint64(c) }

// failing fails after some moves.
type failing struct {
	iterator.Iterator
	left int
}

func (f *failing) Next() bool {
	f.left--
	return f.left > 0 && f.Iterator.Next()
}

func (f *failing) Err() error {
	if f.left <= 0 {
		return errors.New("a read has failed")
	}
	return f.Iterator.Err()
}

// A walk that fails does not know what comes behind the deleted keys it has passed.
func TestWalksThatFailNoteNothing(t *testing.T) {
	s := newStore(t)
	var all pending.Writes
	s.set(&all, "z")
	for i := range 800 {
		s.set(&all, fmt.Sprintf("k%06d", i))
	}
	s.commit(&all)
	for i := range 800 { // half of them by range deletes: no search is due after so few others
		var one pending.Writes
		if key := fmt.Sprintf("k%06d", i); i%2 == 0 {
			one.Add(&s.encoder, &entry.Entry{Key: []byte(key), Kind: entry.Delete})
		} else {
			one.DeleteRange(stored(key), stored(key+"\x00"))
		}
		s.commit(&one)
	}
	scan := s.begin(Config{})
	scan.walk.store = &failing{Iterator: scan.walk.store, left: 1000}
	scan.walk.src = scan.walk.store
	if scan.Seek(stored(""), false) || scan.Err() == nil {
		t.Fatal("the walk has not failed")
	}
	if keys, _ := s.walkAll(Config{}, false); len(keys) != 1 {
		t.Errorf("%v", keys)
	}
}
