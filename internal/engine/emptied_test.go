package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// keysOf are the keys that a Pin shows, with emptied ranges skipped or not.
func (s *store) keysOf(p *view.Pin, emptied bool) (keys string, skipped bool) {
	s.t.Helper()
	var out strings.Builder
	it := p.Iterator()
	defer it.Close()
	cover := p.Cover(emptied)
	last, passed, begin := "", 0, ""
	for ok := it.First(); ok; {
		e := it.Entry()
		hidden := cover != nil && e.Version < cover.Newest(e.Key)
		switch {
		case !emptied || e.Version > p.Version() || string(e.Key) == last:
		case hidden || e.Kind == entry.Delete:
			if passed++; passed == 4 {
				begin = string(e.Key)
			}
		default:
			if passed >= 20 { // as a walk does, which waits for more
				p.NoteEmptied([]byte(begin), e.Key)
			}
			passed = 0
		}
		switch {
		case e.Version > p.Version() || string(e.Key) == last:
		case hidden && emptied:
			// As a walk does: what is hidden by one range is left out all at once.
			_, end := cover.Stretch()
			last, skipped = string(e.Key), true
			ok = it.SkipGE(end, cover.Newest(e.Key))
			continue
		default:
			last = string(e.Key)
			if !hidden && e.Live(0) {
				fmt.Fprintf(&out, "%s@%d ", e.Key, e.Version)
			}
		}
		ok = it.Next()
	}
	s.must(it.Err())
	return out.String(), skipped
}

// keysBack are what keysOf shows, walked from the end, with emptied ranges skipped.
func (s *store) keysBack(p *view.Pin) string {
	s.t.Helper()
	var keys []string
	it := p.Iterator()
	defer it.Close()
	cover := p.Cover(true)
	last, shown := "", "" // the current key, and what its newest version says
	end := func() {
		if shown != "" {
			keys = append(keys, shown)
		}
		shown = ""
	}
	for ok := it.Last(); ok; {
		e := it.Entry()
		if string(e.Key) != last {
			end()
			last = string(e.Key)
		}
		if cover != nil && e.Version < cover.Newest(e.Key) {
			newest := cover.Newest(e.Key)
			lo, _ := cover.Stretch()
			ok = it.SkipLT(lo, newest)
			continue
		}
		if e.Version <= p.Version() {
			if shown = ""; e.Live(0) {
				shown = fmt.Sprintf("%s@%d ", e.Key, e.Version)
			}
		}
		ok = it.Prev()
	}
	end()
	s.must(it.Err())
	slices.Reverse(keys)
	return strings.Join(keys, "")
}

// Whatever was deleted in whatever order, beside whatever else: who skips emptied
// ranges sees what all others see, at every version that is pinned.
func TestEmptiedRangesHideNothing(t *testing.T) {
	total, seeds := 0, 60
	if testing.Short() {
		seeds = 15
	}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 21))
		s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes = 64 << 10 })
		const keys = 400
		key := func(i int) string { return fmt.Sprintf("k%03d", i) }
		version, at, way := 0, 0, 1
		commit := func(ops ...op) {
			s.must(s.commit(false, ops...))
			version++
		}
		var pins []*view.Pin
		for range 60 {
			switch n := rng.IntN(17); {
			case n == 16: // a transaction larger than its memory
				from, count := rng.IntN(keys), 50+rng.IntN(keys)
				var ops []op
				for _, j := range rng.Perm(count) {
					if o := del(key((from + j) % keys)); rng.IntN(100) > 0 {
						ops = append(ops, o)
					} else {
						ops = append(ops, set(o.key, []byte("v")))
					}
				}
				s.commitSpilled(func() {
					for range rng.IntN(3) {
						commit(set(key(rng.IntN(keys)), []byte("v")), del(key(rng.IntN(keys))))
					}
				}, ops...)
				version++
			case n < 3: // deletes in order, up or down, in one commit or many, with holes
				from, count, hole := rng.IntN(keys), 20+rng.IntN(200), rng.IntN(3)*rng.IntN(40)
				step := 1 - 2*rng.IntN(2)
				if rng.IntN(2) == 0 { // goes on where the last ones ended
					from, step = at, way
				}
				at, way = from+step*count, step
				var ops []op
				for j := range count {
					i := from + step*j
					if i < 0 || i >= keys || hole > 0 && j%hole == hole-1 {
						continue
					}
					if ops = append(ops, del(key(i))); rng.IntN(50) == 0 {
						commit(ops...)
						ops = nil
					}
				}
				if len(ops) > 0 {
					commit(ops...)
				}
			case n == 14 || n == 15: // deletes in no order
				from, count, batch := rng.IntN(keys), 50+rng.IntN(keys), 1+rng.IntN(60)
				var ops []op
				for _, j := range rng.Perm(count) {
					if ops = append(ops, del(key((from+j)%keys))); len(ops) < batch {
						continue
					}
					commit(ops...)
					s.engine.Commits.CatchUp()
					if ops = nil; rng.IntN(3*count) < batch {
						break
					}
				}
			case n < 6:
				var ops []op
				for range 1 + rng.IntN(60) {
					ops = append(ops, set(key(rng.IntN(keys)), []byte("v")))
				}
				commit(ops...)
			case n == 6:
				lo := rng.IntN(keys)
				commit(delRange(key(lo), key(lo+1+rng.IntN(50))))
			case n == 7:
				s.flush()
			case n == 8:
				s.seal()
			case n == 9:
				s.compactPlanned([]occasion{whileBusy, atIdle}[rng.IntN(2)])
			case n == 10:
				pins = append(pins, s.pin(0))
			case n == 11 && len(pins) > 0:
				i := rng.IntN(len(pins))
				pins[i].Release()
				pins = append(pins[:i], pins[i+1:]...)
			default:
				s.search(key(rng.IntN(keys)), key(rng.IntN(keys)))
			}
			if rng.IntN(2) == 0 {
				s.search(key(rng.IntN(keys)))
			}
			now := s.pin(0)
			for _, p := range append(pins[:len(pins):len(pins)], now) {
				want, _ := s.keysOf(p, false)
				got, skipped := s.keysOf(p, true)
				if got != want {
					t.Fatalf("seed %d: at version %d of %d:\n got %s\nwant %s", seed, p.Version(), version, got, want)
				}
				if back := s.keysBack(p); back != want {
					t.Fatalf("seed %d: at version %d of %d, from the end:\n got %s\nwant %s", seed, p.Version(), version, back, want)
				}
				if skipped {
					total++
				}
			}
			now.Release()
		}
		for _, p := range pins {
			p.Release()
		}
		s.close()
	}
	if total < 10*seeds {
		t.Errorf("only %d walks met something hidden", total)
	}
}

// commitSpilled commits ops as a transaction larger than its memory; meanwhile is
// called when all that others need not wait for is done.
func (s *store) commitSpilled(meanwhile func(), ops ...op) {
	s.t.Helper()
	ctx := context.Background()
	var records []byte
	for _, o := range ops {
		e := entry.Entry{Key: []byte(o.key), Value: o.value, Kind: o.kind}
		records = entry.AppendRecord(records, &e, false)
	}
	sp := s.newSpill()
	defer sp.Discard()
	s.flush() // or Prepare would wait for the task
	s.must(sp.Add(ctx, records, 0, nil))
	s.must(sp.Prepare(ctx, commit.Check{}))
	meanwhile()
	s.must(sp.Commit(s.last+1, commit.Check{}))
	s.last++
	s.engine.Commits.Publish(s.last)
	s.engine.Commits.CatchUp()
}

// While one commits, others search and read: none sees less because of it, and
// nothing that was emptied meanwhile is missed.
func TestEmptiedRangesAreFoundWhileOthersWrite(t *testing.T) {
	const n = 24_000
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes = 256 << 10 })
	defer s.close()
	key := func(i int) string { return fmt.Sprintf("k%05d", i) }
	var ops []op
	for i := range n {
		ops = append(ops, set(key(i), []byte("v")))
	}
	s.must(s.commit(false, append(ops, set("z", []byte("v")))...))
	s.flush()
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.engine.Commits.CatchUp()
				}
			}
		})
	}
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			p, err := s.engine.Views.Acquire(0)
			if err != nil {
				t.Error(err)
				return
			}
			want, _ := s.keysOf(p, false)
			if got, _ := s.keysOf(p, true); got != want {
				t.Errorf("at version %d: got %s\nwant %s", p.Version(), got, want)
			}
			p.Release()
		}
	})
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 3 {
		for i := range n {
			s.must(s.commit(false, del(key(i))))
			if rng.IntN(50) == 0 {
				again := key(rng.IntN(n))
				s.must(s.commit(false, set(again, []byte("w"))))
				s.must(s.commit(false, del(again)))
			}
			s.engine.Commits.CatchUp()
		}
		// Of the last deletes, which were not sought past, each round has left a set and a delete,
		// and what was set again, if nothing was compacted since.
		if steps, most := s.steps(), 3*(2*searchAfter+n/20); steps > most {
			t.Errorf("round %d: %d steps past %d deletes, want %d at most", round, steps, n, most)
		}
		s.seal()
		if round < 2 {
			s.must(s.commit(false, ops...))
		}
	}
	close(done)
	others.Wait()
}

// Who deletes very much at once leaves nothing to walk over, and hides nothing that
// others have committed while he did.
func TestSpilledDeletesAreSkipped(t *testing.T) {
	const n = 8_000
	for _, others := range [][]op{nil, {set("k01000", []byte("w")), del("k02000")}} {
		s := newStore(t, vfs.NewMem(), nil)
		var sets, dels []op
		for i := range n {
			sets = append(sets, set(fmt.Sprintf("k%05d", i), []byte("v")))
			dels = append(dels, del(fmt.Sprintf("k%05d", (i*7)%n)))
		}
		s.must(s.commit(false, append(sets, set("z", []byte("v")))...))
		s.commitSpilled(func() {
			if others != nil {
				s.must(s.commit(false, others...))
			}
		}, append(dels, set("k01500", []byte("x")))...)
		p := s.pin(0)
		want, _ := s.keysOf(p, false)
		if got, skipped := s.keysOf(p, true); got != want || !skipped {
			t.Errorf("got %s\nwant %s", got, want)
		}
		p.Release()
		if steps := s.steps(); steps > 200 {
			t.Errorf("%d steps past %d deletes", steps, n)
		}
		s.close()
	}
}

// searchFrom seeks from keys, as committers do.
func (s *store) search(keys ...string) {
	s.t.Helper()
	p := s.pin(0)
	defer p.Release()
	s.engine.Work.searcher.mu.Lock()
	defer s.engine.Work.searcher.mu.Unlock()
	var from [][]byte
	for _, key := range keys {
		from = append(from, []byte(key))
	}
	s.engine.Work.searcher.searchFrom(p, from)
}

// steps is how many entries are met by who looks for all that is not deleted.
func (s *store) steps() (steps int) {
	s.t.Helper()
	p := s.pin(0)
	defer p.Release()
	it := p.Iterator()
	defer it.Close()
	cover := p.Cover(true)
	for ok := it.First(); ok; steps++ {
		if e := it.Entry(); cover != nil && e.Version < cover.Newest(e.Key) {
			_, end := cover.Stretch()
			ok = it.SkipGE(end, cover.Newest(e.Key))
			continue
		}
		ok = it.Next()
	}
	s.must(it.Err())
	return steps
}

// However many keys were deleted in order, in whatever regions and by commits of
// whatever size: once the last commit has returned, who seeks past them meets no
// more than a step of them, though no task has run in the background.
func TestSeekAfterDeletes(t *testing.T) {
	const n = 24_000
	up := func(i int) int { return i }
	for _, c := range []struct {
		name    string
		order   func(i int) int
		regions int // that are deleted from in turn
		batch   int
		again   int // one key in again was set again, in the memtable; 0 = none
		seals   int // times that the memtable is sealed meanwhile
	}{
		{name: "up", order: up, regions: 1, batch: 1},
		{name: "up in batches", order: up, regions: 1, batch: 50},
		{name: "up in large transactions", order: up, regions: 1, batch: 5000},
		{name: "down", order: func(i int) int { return n - 1 - i }, regions: 1, batch: 1},
		{name: "down in batches", order: func(i int) int { return n - 1 - i }, regions: 1, batch: 700},
		{name: "in pairs", order: func(i int) int { return i ^ 1 }, regions: 1, batch: 1},
		{name: "from both ends", order: func(i int) int { return i%2*(n-1-i) + i/2 }, regions: 1, batch: 1},
		{name: "in four regions", order: func(i int) int { return i%4*n/4 + i/4 }, regions: 4, batch: 1},
		{name: "in four regions by batches", order: func(i int) int { return i/100%4*n/4 + i/400*100 + i%100 }, regions: 4, batch: 100},
		{name: "what is in memory", order: up, regions: 1, batch: 10, again: 1},
		{name: "what is partly in memory", order: up, regions: 1, batch: 1, again: 3},
		{name: "in several memtables", order: up, regions: 1, batch: 1, seals: 3},
		{name: "in four regions, in several memtables", order: func(i int) int { return i%4*n/4 + i/4 }, regions: 4, batch: 1, seals: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, vfs.NewMem(), nil)
			defer s.close()
			key := func(i int) string { return fmt.Sprintf("k%05d", i) }
			var ops []op
			for i := range n + 1 {
				ops = append(ops, set(key(i), []byte("v")))
			}
			s.must(s.commit(false, ops...))
			s.flush()
			ops = nil
			for i := 0; c.again > 0 && i < n; i += c.again {
				ops = append(ops, set(key(i), []byte("w")))
			}
			if ops != nil {
				s.must(s.commit(false, ops...))
				s.engine.Commits.CatchUp()
			}
			// A deleted key has up to three entries.
			most := 3 * searchAfter
			ops = nil
			for i := range n {
				if ops = append(ops, del(key(c.order(i)))); len(ops) < c.batch && i < n-1 {
					continue
				}
				s.must(s.commit(false, ops...))
				s.engine.Commits.CatchUp()
				ops = nil
				if c.seals > 0 && i%(n/(c.seals+1)) == n/(c.seals+1)-1 {
					s.seal()
				}
			}
			if steps := s.steps(); steps > most {
				t.Errorf("%d steps past %d deletes, want %d at most", steps, n, most)
			}
		})
	}
}

// A merge drops what has expired, and keyspaces that are gone; who holds a View in
// which they are goes on to see them, whatever is found to be empty afterwards.
func TestEmptiedRangesOfLaterViews(t *testing.T) {
	for _, c := range []struct {
		name string
		gone func(s *store, b entry.KeyspaceID)
	}{
		{"what has expired", func(s *store, _ entry.KeyspaceID) { s.clock += 10_000 }},
		{"a keyspace was dropped", func(s *store, b entry.KeyspaceID) { s.must(s.engine.Keyspaces.Drop(s.engine.Views.Visible()+1, b)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, vfs.NewMem(), nil)
			defer s.close()
			var ids []entry.KeyspaceID
			for _, name := range []string{"a", "b", "c"} {
				k, err := s.engine.Keyspaces.Create(s.engine.Views.Visible()+1, name, layout.KeyspaceOptions{Versions: 1})
				s.must(err)
				ids = append(ids, k.ID)
			}
			key := func(k, i int) string { return string(entry.AppendKeyspace(nil, ids[k])) + fmt.Sprintf("k%03d", i) }
			var sets, dels []op
			for i := range 300 {
				sets = append(sets, set(key(0, i), []byte("v")), set(key(2, i), []byte("v")))
				dels = append(dels, del(key(0, i)), del(key(2, i)))
			}
			lives := set(key(1, 50), []byte("v"))
			lives.expires = uint64(s.clock) + 1000
			s.must(s.commit(false, append(sets, lives)...))
			s.flush()
			s.must(s.commit(false, dels...))
			p := s.pin(0)
			defer p.Release()
			want, _ := s.keysOf(p, false)
			if !strings.Contains(want, "k050") {
				t.Fatal(want)
			}
			c.gone(s, ids[1])
			s.must(s.engine.Work.compactor.carryOut(context.Background(), &policy.Compaction{Runs: []layout.RunID{s.engine.views.Current().Layout.Runs()[0].ID}, Reason: "test"}))
			s.search(key(0, 0), key(2, 0))
			if got, _ := s.keysOf(p, true); got != want {
				t.Errorf("a reader who began before sees %s, want %s", got, want)
			}
			if n := s.steps(); n > 100 {
				t.Errorf("%d steps", n)
			}
		})
	}
}

// Deletes that a merge into the base leaves for a reader of an older version go on
// to be skipped by all later ones; when nothing is left, nor is an emptied range.
func TestEmptiedRangesOutliveCompactionsForReaders(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	const n = 6000
	var sets, dels []op
	for i := range n {
		key := fmt.Sprintf("k%05d", i)
		sets, dels = append(sets, set(key, []byte("v"))), append(dels, del(key))
	}
	s.must(s.commit(false, append(sets, set("a", []byte("v")), set("z", []byte("v")))...))
	s.flush()
	old := s.pin(0)
	s.must(s.commit(false, dels...))
	s.engine.Commits.CatchUp()
	s.flush()
	merge := func() *view.Run {
		t.Helper()
		var ids []layout.RunID
		for _, r := range s.engine.views.Current().Layout.Runs() {
			ids = append(ids, r.ID)
		}
		s.must(s.engine.Work.compactor.carryOut(context.Background(), &policy.Compaction{Runs: ids, Reason: "test"}))
		return s.engine.views.Current().Runs[0]
	}
	for range 2 { // of one run, too
		r := merge()
		if r.Meta().Entries < n {
			t.Fatalf("the merge left %d entries", r.Meta().Entries)
		}
		if steps := s.steps(); steps > 100 {
			t.Errorf("%d steps past %d deletes that are kept for a reader", steps, n)
		}
		for _, p := range []*view.Pin{old, s.pin(0)} {
			want, _ := s.keysOf(p, false)
			if got, _ := s.keysOf(p, true); got != want {
				t.Errorf("at %d: got %.80s, want %.80s", p.Version(), got, want)
			}
			if p != old {
				p.Release()
			}
		}
	}
	old.Release()
	r := merge()
	p := s.pin(0)
	defer p.Release()
	if r.Meta().Entries != 2 || p.Cover(true) != nil {
		t.Errorf("%d entries, and emptied ranges: %v", r.Meta().Entries, p.Cover(true))
	}
}
