package scan

import (
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/jobs"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/pending"
	"github.com/brockdb/brock/internal/tree"
	"github.com/brockdb/brock/vfs"
)

const testSeed = 42

// store is a tree and what commits to it.
type store struct {
	t testing.TB
	*tree.Tree
	commits *commit.Pipeline
	encoder pending.Encoder
}

func newStore(t testing.TB) *store {
	t.Helper()
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("/s"))
	log, err := manifest.Create(manifest.Options{FS: fs, Dir: "/s"}, manifest.CreateOptions{Seed: testSeed, Created: 1})
	must(t, err)
	tr, _, err := tree.Open(tree.Config{
		FS: fs, Dir: "/s", ValueDir: "/s", Seed: testSeed, Now: time.Now, Jobs: jobs.New(jobs.Options{Workers: 1}),
		MemtableBytes: 8 << 20, JournalBytes: 64 << 20, SegmentBytes: 32 << 20, RunFileBytes: 8 << 20, IdleAfter: time.Hour,
		Exclusive: func(fn func() error) error { return fn() },
	}, log)
	must(t, err)
	tr.Start()
	t.Cleanup(func() { must(t, tr.Close()) })
	return &store{
		t: t, Tree: tr, commits: commit.New(commit.Config{Store: tr, Journal: tr.Journal(), HashSeed: testSeed}),
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
	_, err := s.commits.Commit(s.t.Context(), &commit.Request{Payload: payload, Records: n, Ranges: w.Ranges().Len(),
		Check: conflict.Check{Isolation: conflict.LastWriterWins}})
	must(s.t, err)
}

func stored(key string) []byte { return append([]byte{0}, key...) }

// begin begins a scan of all keys.
func (s *store) begin(c Config) *Scan {
	s.t.Helper()
	var err error
	c.Pin, err = s.Acquire(0)
	must(s.t, err)
	c.At, c.Lo, c.Hi, c.Prefix = c.Pin.Version(), []byte{0}, []byte{1}, 1
	n := new(Scan)
	n.Begin(&c)
	s.t.Cleanup(func() {
		n.Close()
		n.Source().Close()
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

// A walk into a deleted range passes over it at once, in both directions,
// wherever entries and tombstone are, and finds what was written since.
func TestDeletedRangesAreSkipped(t *testing.T) {
	for _, flush := range []string{"", "entries", "both"} {
		s := newStore(t)
		var all, deletes pending.Writes
		for i := range 20_000 {
			s.set(&all, fmt.Sprintf("k%06d", i))
		}
		s.commit(&all)
		if flush != "" {
			must(t, s.Flush(t.Context()))
		}
		deletes.DeleteRange(stored("k000100"), stored("k019900"))
		s.set(&deletes, "k010000")
		reader := s.begin(Config{}) // keeps what is deleted
		s.commit(&deletes)
		if flush == "both" {
			must(t, s.Flush(t.Context()))
		}
		for _, turned := range []bool{false, true} {
			scan := s.begin(Config{})
			count := &counting{Iterator: scan.walk.src}
			scan.walk.src = count
			from, want := "k000099", "[k000099 k010000 k019900]"
			if turned {
				from, want = "k019901", "[k019900 k010000 k000099]"
			}
			var keys []string
			for ok := scan.Seek(stored(from), turned); ok && len(keys) < 3; ok = scan.Move(turned) {
				keys = append(keys, string(scan.Entry().Key[1:]))
			}
			must(t, scan.Err())
			if got := fmt.Sprint(keys); got != want {
				t.Errorf("flushed %q, turned %v: %s, want %s", flush, turned, got, want)
			}
			if count.moves > 60 {
				t.Errorf("flushed %q, turned %v: %d moves", flush, turned, count.moves)
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
	show := func(turned bool) (got string) {
		from := stored("")
		if turned {
			from = []byte{1}
		}
		for ok := n.Seek(from, turned); ok; ok = n.Move(turned) {
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
