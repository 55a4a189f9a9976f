package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// gauntlet runs commits, flushes, merges, collections, readers and crashes in
// random order, and inside one another, against a plain model.
type gauntlet struct {
	*store
	rng    *rand.Rand
	seed   uint64
	mem    *vfs.Mem
	states []map[string]string // by version
	pins   []*view.Pin

	busy     string // "collect", "merge" or "flush" while one goes on, "commit", or ""
	inside   bool   // something goes on in the middle of it
	clones   int    // crashes looked at
	nested   int
	crossed  int // merges that began before a collection ended, and ended after it
	collects int
	sorts    int // merges that moved values
}

func newGauntlet(t *testing.T, seed uint64) *gauntlet {
	g := &gauntlet{rng: rand.New(rand.NewPCG(seed, 5)), seed: seed, mem: vfs.NewMem(), states: []map[string]string{{}}}
	fs := faultfs.New(g.mem, faultfs.Options{Before: g.before})
	g.store = newStore(t, fs, func(s *store) {
		s.cfg.NoMap = seed%3 == 0
		s.cfg.Policy.GarbageShare = 5 + g.rng.IntN(50)
		s.cfg.SegmentBytes = 64 << 10
	})
	return g
}

func (g *gauntlet) fatalf(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("seed %d: %s", g.seed, fmt.Sprintf(format, args...))
}

// before is called before every file operation.
func (g *gauntlet) before(op faultfs.Op) {
	if g.store == nil || g.engine == nil || g.busy == "" || g.busy == "commit" {
		return
	}
	if op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 && g.rng.IntN(15) == 0 {
		g.crashClone(op)
	}
	begins := op.Kind == faultfs.Create && !strings.HasSuffix(op.Path, ".log")
	if !begins || g.inside || g.busy == "flush" || g.rng.IntN(3) == 0 {
		return
	}
	g.inside = true
	defer func(was string) { g.busy, g.inside = was, false }(g.busy)
	g.nested++
	outer := g.busy
	for range 1 + g.rng.IntN(4) {
		switch n := g.rng.IntN(6); {
		case n < 2:
			g.write()
		case n == 2:
			g.flushNow()
		case outer == "collect":
			g.mergeSome()
		case outer == "merge" && g.collectNow():
			g.crossed++
		}
	}
}

// crashClone opens what a crash now would leave: every commit was synced, so it
// must be just what there is.
func (g *gauntlet) crashClone(op faultfs.Op) {
	mode := vfs.CrashMode(g.rng.IntN(4))
	clone := g.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: g.rng.Uint64()})
	c := &store{t: g.t, fs: clone, cfg: g.cfg, clock: g.clock}
	if err := c.open(); err != nil {
		g.fatalf("crash before %v, mode %d: open: %v", op, mode, err)
	}
	pin := c.pin(0)
	g.compare(c, pin, len(g.states)-1, fmt.Sprintf("crash before %v, mode %d", op, mode))
	pin.Release()
	if problems := c.check(); problems != "" {
		g.fatalf("crash before %v, mode %d: %s", op, mode, problems)
	}
	c.close()
	g.clones++
}

// compare holds all that a reader finds against the model.
func (g *gauntlet) compare(s *store, p *view.Pin, version int, what string) {
	g.t.Helper()
	want := maps.Clone(g.states[version])
	it := p.Iterator()
	defer it.Close()
	last := ""
	cover := p.Cover(true)
	for ok := it.First(); ok; ok = it.Next() {
		e := it.Entry()
		key := string(e.Key)
		if key == last || e.Version > p.Version() {
			continue
		}
		last = key
		if e.Kind == entry.Delete || cover != nil && e.Version < cover.Newest(e.Key) {
			if _, there := want[key]; there {
				g.fatalf("%s: %s is deleted at %d", what, key, version)
			}
			continue
		}
		got, err := valueOf(p, e.Key, e)
		if err != nil {
			g.fatalf("%s: %s: %v", what, key, err)
		}
		if w, there := want[key]; !there || w != string(got) {
			g.fatalf("%s: %s at version %d is %.20q of version %d, want %.20q, %v", what, key, version, got, e.Version, w, there)
		}
		delete(want, key)
	}
	if err := it.Err(); err != nil || len(want) > 0 {
		g.fatalf("%s: %d keys are missing, %v", what, len(want), err)
	}
}

func (g *gauntlet) write() {
	defer func(was string) { g.busy = was }(g.busy)
	g.busy = "commit"
	next := maps.Clone(g.states[len(g.states)-1])
	seen := map[string]bool{}
	var ops []op
	if g.rng.IntN(12) == 0 {
		lo, hi := g.rng.IntN(40), 40
		if g.rng.IntN(2) == 0 {
			lo = 0
		} else if hi = lo + 1 + g.rng.IntN(40-lo); hi == 40 {
			lo = g.rng.IntN(2)
		}
		ops = append(ops, delRange(fmt.Sprintf("key%02d", lo), fmt.Sprintf("key%02d", hi)))
		for i := lo; i < hi; i++ {
			delete(next, fmt.Sprintf("key%02d", i))
		}
	}
	for range g.rng.IntN(8) {
		key := fmt.Sprintf("key%02d", g.rng.IntN(40))
		if seen[key] {
			continue
		}
		seen[key] = true
		if g.rng.IntN(4) == 0 {
			ops = append(ops, del(key))
			delete(next, key)
			continue
		}
		value := bytes.Repeat(fmt.Appendf(nil, "%s at %d, ", key, len(g.states)), 1+g.rng.IntN(1<<g.rng.IntN(8)))
		ops = append(ops, set(key, value))
		next[key] = string(value)
	}
	if len(ops) == 0 {
		return
	}
	g.must(g.commit(true, ops...))
	g.states = append(g.states, next)
}

// during runs fn as one kind of work.
func (g *gauntlet) during(work string, fn func()) {
	defer func(was string) { g.busy = was }(g.busy)
	g.busy = work
	fn()
}

func (g *gauntlet) flushNow() { g.during("flush", g.flush) }

func (g *gauntlet) mergeSome() {
	g.during("merge", func() {
		g.engine.Work.compactor.turn.Always()
		defer g.engine.Work.compactor.turn.Leave()
		runs := g.engine.views.Current().Layout.Runs()
		if len(runs) == 0 {
			return
		}
		first := g.rng.IntN(len(runs))
		var ids []layout.RunID
		for _, r := range runs[first : first+1+g.rng.IntN(len(runs)-first)] {
			ids = append(ids, r.ID)
		}
		plan := &policy.Compaction{Runs: ids, Reason: "test"}
		if g.rng.IntN(3) == 0 {
			plan.Cluster = g.someSegments()
		}
		err := g.engine.Work.compactor.carryOut(context.Background(), plan)
		if len(plan.Cluster) > 0 && errors.Is(err, errWritersAreBack) {
			return
		}
		g.must(err)
		if len(plan.Cluster) > 0 {
			g.sorts++
		}
	})
}

// someSegments picks segments whose values may be moved; like a plan that is out
// of date, it may name one that another job has taken away by then.
func (g *gauntlet) someSegments() (nums []entry.FileNum) {
	for _, s := range g.engine.views.Current().Layout.Segments() {
		if g.rng.IntN(2) == 0 {
			nums = append(nums, s.Num)
		}
	}
	return nums
}

func (g *gauntlet) collectNow() (did bool) {
	g.during("collect", func() {
		var err error
		did, err = g.engine.Work.collector.collectPlanned(context.Background(), []occasion{atIdle, onRequest}[g.rng.IntN(2)])
		g.must(err)
	})
	if did {
		g.collects++
	}
	return did
}

func (g *gauntlet) read() {
	for _, p := range g.pins {
		g.compare(g.store, p, int(p.Version()), "a reader from before")
	}
	p := g.pin(0)
	g.compare(g.store, p, len(g.states)-1, "a reader")
	p.Release()
}

func (g *gauntlet) unpin() {
	for _, p := range g.pins {
		p.Release()
	}
	g.pins = nil
}

func (g *gauntlet) step() {
	switch n := g.rng.IntN(40); {
	case n < 14:
		g.write()
	case n < 20:
		g.flushNow()
	case n < 25:
		g.mergeSome()
	case n < 31:
		g.collectNow()
	case n < 32:
		g.during("flush", func() { _, err := g.engine.Work.compactor.compactPlanned(context.Background(), onRequest); g.must(err) })
	case n < 34:
		g.pins = append(g.pins, g.pin(0))
	case n < 35:
		g.unpin()
	case n < 37:
		g.read()
	case n < 38:
		if problems := g.check(); problems != "" {
			g.fatalf("%s", problems)
		}
	default:
		g.unpin()
		g.close()
		if n == 39 {
			g.mem = g.mem.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: g.rng.Uint64()})
			g.fs = faultfs.New(g.mem, faultfs.Options{Before: g.before})
		}
		g.mustOpen()
		g.read()
	}
}

// TestCollectionAgainstModel: a key that was deleted or overwritten at any moment
// of a collection or clustering stays so, and nothing live is lost; crashes included.
func TestCollectionAgainstModel(t *testing.T) {
	seeds, steps := uint64(24), 250
	if testing.Short() {
		seeds = 4
	}
	var clones, nested, crossed, collects, sorts int
	first := draw.Seed(t) >> 24
	enough := func() bool { return collects > 0 && sorts > 0 && crossed > 0 && clones > 0 }
	// A few seeds may leave something out: then there are more.
	for i := uint64(0); i < seeds || !enough() && i < 10*seeds; i++ {
		g := newGauntlet(t, first+i)
		for range steps {
			g.step()
		}
		g.read()
		if problems := g.check(); problems != "" {
			g.fatalf("%s", problems)
		}
		g.unpin()
		g.flushNow()
		g.during("flush", func() { _, err := g.engine.Work.Reclaim(context.Background()); g.must(err) })
		g.read()
		g.noLeftovers(g.mem)
		g.close()
		clones, nested, crossed, collects = clones+g.clones, nested+g.nested, crossed+g.crossed, collects+g.collects
		sorts += g.sorts
	}
	t.Logf("from seed %d: %d collections, work within work %d times, %d collections within a merge, %d clusterings, %d crashes", first, collects, nested, crossed, sorts, clones)
	if !enough() {
		t.Error("too little happened")
	}
}

// noLeftovers checks that there are no files but those that are needed.
func (s *store) noLeftovers(mem *vfs.Mem) {
	s.t.Helper()
	s.engine.views.ReclaimViews()
	needed := map[string]bool{"SUPER": true, "LOCK": true}
	for name := range s.engine.views.Current().Layout.Files() {
		needed[name.String()] = true
	}
	for _, j := range s.engine.unflushed.segments() {
		needed[filename.Of(filename.Journal, j.File)] = true
	}
	names, err := mem.List("/s")
	s.must(err)
	for _, name := range names {
		if !needed[name] && !strings.HasPrefix(name, "MANIFEST-") {
			s.t.Fatalf("%s is left over", name)
		}
	}
}

// A live record that is damaged has its segment stay as it is, whole; others are
// collected, and work goes on.
func TestDamagedSegmentIsNotCollected(t *testing.T) {
	mem := vfs.NewMem()
	var reports []error
	s := newStore(t, mem, func(s *store) {
		s.cfg.NoMap = true
		s.cfg.OnWork = func(w Work) {
			if w.Kind == "collection" {
				reports = append(reports, w.Err)
			}
		}
	})
	for _, prefix := range []string{"a", "b"} {
		for i := range 10 {
			key := fmt.Sprint(prefix, i)
			s.must(s.commit(true, set(key, bulk(key, 1000))))
		}
		s.flush()
	}
	first := s.engine.views.Current().Layout.Segments()[0]
	for _, prefix := range []string{"a", "b"} {
		for i := range 8 {
			s.must(s.commit(true, del(fmt.Sprint(prefix, i))))
		}
	}
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	var e entry.Entry
	p := s.pin(0)
	_, err := p.Get([]byte("a9"), hashOf(s.engine, "a9"), &e)
	s.must(err)
	p.Release()
	damage(t, mem, s.engine.cfg.Path(nameOf(first)), int64(e.Handle.Offset)+500)
	did, err := s.engine.Work.collector.collectPlanned(context.Background(), atIdle)
	if !did || err != nil || s.failure != nil {
		t.Errorf("collected %v, %v, %v", did, err, s.failure)
	}
	var c *errs.Corruption
	if len(reports) != 2 || !errors.As(reports[0], &c) || c.File != nameOf(first).String() || reports[1] != nil {
		t.Errorf("reports %v", reports)
	}
	if st := s.engine.views.Current().Layout.Segment(first.Num).State(); st.Status != layout.Live {
		t.Errorf("the damaged segment is %+v", st)
	}
	p = s.pin(0)
	for _, key := range []string{"a8", "b8", "b9"} {
		if v, _, ok := s.lookup(p, key); !ok || !bytes.Equal(v, bulk(key, 1000)) {
			t.Errorf("%s is lost", key)
		}
	}
	p.Release()
	if did, err := s.engine.Work.collector.collectPlanned(context.Background(), atIdle); did || err != nil || len(reports) != 2 {
		t.Errorf("tried again: %v, %v", did, err)
	}
	s.close()
}

func nameOf(s *layout.Segment) filename.Name { return filename.New(s.Kind, s.Num) }

// damage changes a byte of a file.
func damage(t *testing.T, fs vfs.FS, path string, off int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	b[0] ^= 1
	_, werr := f.WriteAt(b[:], off)
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}
