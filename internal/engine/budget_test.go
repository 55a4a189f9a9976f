package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
	"github.com/brockdb/brock/vfs"
)

const spaceValue = 8 << 10

func spaceStore(t *testing.T, keys int) *store {
	t.Helper()
	s := newStore(t, vfs.NewMem(), func(*store) {})
	s.overwrite(0, keys)
	return s
}

// overwrite writes keys from..to.
func (s *store) overwrite(from, to int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		key := fmt.Sprintf("key%06d", i)
		s.must(s.commit(false, set(key, bulk(key, spaceValue))))
	}
}

// A load that replaces nothing is thought to hide nothing, so that it is not
// disturbed; its segments are small beside all of it.
func TestLoadHidesNothing(t *testing.T) {
	s := spaceStore(t, 4000)
	defer s.close()
	if n := len(s.engine.views.Current().Tables); n != 1 || s.engine.budget.older.Load() != 0 || s.engine.budget.throttleDelays() != 0 {
		t.Errorf("%d memtables, %d bytes hidden, brake %v after a load", n, s.engine.budget.older.Load(), s.engine.budget.throttleDelays())
	}
	for _, info := range s.engine.unflushed.journal.Segments() {
		if info.Offset > 9<<20 {
			t.Errorf("segment %d has %d bytes", info.File, info.Offset)
		}
	}
}

// What overwrites and deletes replace is known, about, while they are in a
// memtable, which is sealed for it, and in an upper run; and exactly after a merge.
func TestHiddenGarbageIsKnown(t *testing.T) {
	const keys, again = 4000, 450 // less than seals a memtable
	s := spaceStore(t, keys)
	defer s.close()
	s.flush()
	near := func(what string, got, want int64) {
		t.Helper()
		if got < want*3/4 || got > want*5/4 {
			t.Errorf("%s: %d bytes hidden, want about %d", what, got, want)
		}
	}
	state := func() (memtables, runs int64) {
		v := s.engine.views.Current()
		st := s.engine.policyState(v)
		for _, n := range st.Hidden {
			runs += int64(n)
		}
		return int64(st.Memtables.Older), runs
	}
	s.overwrite(0, again)
	tables, runs := state()
	near("overwrites in a memtable", tables, again*spaceValue)
	near("overwrites in a memtable, in runs", runs, 0)
	s.flush()
	tables, runs = state()
	near("after the flush", runs, again*spaceValue)
	near("after the flush, in memtables", tables, 0)

	for i := range 2 * again {
		s.must(s.commit(false, del(fmt.Sprintf("key%06d", again+i))))
	}
	if n := len(s.engine.views.Current().Tables); n != 2 {
		t.Errorf("%d memtables: none was sealed for what it hides", n)
	}
	tables, _ = state()
	near("deletes", tables, 2*again*spaceValue)
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	tables, runs = state()
	near("after a merge", tables+runs, 0)
	live := uint64(0)
	for _, seg := range s.engine.views.Current().Layout.Segments() {
		live += seg.Bytes - seg.DeadBytes()
	}
	if want := uint64(keys-2*again) * spaceValue; live != want {
		t.Errorf("%d bytes are live, want %d", live, want)
	}
	if text := s.check(); text != "" {
		t.Error(text)
	}
}

// What a range delete hides is known at once, about; what range deletes hide already
// counts once. An idle store then finds it.
func TestHiddenByRangeDeletes(t *testing.T) {
	const keys = 4000
	s := spaceStore(t, keys)
	defer s.close()
	s.flush()
	key := func(i int) string { return fmt.Sprintf("key%06d", i) }
	near := func(what string, want int64) {
		t.Helper()
		if got := s.engine.budget.older.Load(); got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: %d bytes hidden, want about %d", what, got, want)
		}
	}
	s.must(s.commit(false, delRange(key(1000), key(1500))))
	near("the first", 500*spaceValue)
	s.must(s.commit(false, delRange(key(1100), key(1400))))
	near("within the first", 500*spaceValue)
	s.must(s.commit(false, delRange(key(0), key(2000))))
	near("around the first", 2000*spaceValue)
	s.must(s.commit(false, delRange(key(500), key(3000))))
	near("beside these", 3000*spaceValue)
	s.flush()
	s.compactPlanned(atIdle)
	layout := s.engine.views.Current().Layout
	live := uint64(0)
	for _, seg := range layout.Segments() {
		live += seg.Bytes - seg.DeadBytes()
	}
	if want := uint64(keys-3000) * spaceValue; live != want || len(layout.Runs()) != 1 {
		t.Errorf("%d bytes are live in %d runs, want %d in one", live, len(layout.Runs()), want)
	}
}

// What is not known of runs is not taken for nothing: of a memtable that was
// replayed.
func TestUnknownIsNotNothing(t *testing.T) {
	s := spaceStore(t, 1000)
	s.flush()
	s.overwrite(0, 100)
	s.close()
	s.mustOpen()
	defer s.close()
	s.flush()
	v := s.engine.views.Current()
	if hidden := s.engine.policyState(v).Hidden; len(v.Runs) != 2 || len(hidden) != 0 {
		t.Errorf("of %d runs it is known that they hide %v", len(v.Runs), hidden)
	}
}

// A merge keeps no segment that it doesn't read: what others collect meanwhile is
// removed at once, and what it reads stays.
func TestWorkKeepsOnlyWhatItReads(t *testing.T) {
	mem := vfs.NewMem()
	s := newStore(t, mem, nil)
	defer s.close()
	s.overwrite(0, 1000)
	s.flush()
	s.overwrite(0, 600)
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	hold, err := s.engine.views.Hold()
	s.must(err)
	part, release := hold.HoldPart(func(part *view.View) {
		part.Tables, part.Segments = nil, part.Segments.Without(part.Unmoved())
	})
	if did, err := s.engine.Work.collector.collectPlanned(context.Background(), onRequest); !did || err != nil {
		t.Fatalf("collected %v, %v", did, err)
	}
	s.noLeftovers(mem)
	s.overwrite(0, 1000)
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	it := part.Iterator() // of runs that were replaced
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if n != 1000 || it.Err() != nil {
		t.Errorf("%d entries, %v", n, it.Err())
	}
	it.Close()
	release()
	s.noLeftovers(mem)
}

// Where older versions are kept, what is replaced is no garbage, but what these replace is. What is
// retained for a time is garbage afterwards.
func TestRetainedVersionsAreNotHidden(t *testing.T) {
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.Policy.Versions = 3 })
	defer s.close()
	for range 3 {
		s.overwrite(0, 500)
	}
	if n := s.engine.budget.older.Load(); n != 0 {
		t.Errorf("%d bytes are thought to be garbage", n)
	}
	s.overwrite(0, 500)
	if n := s.engine.budget.older.Load(); n < 400*spaceValue || n > 600*spaceValue {
		t.Errorf("%d bytes are thought to be garbage, want about %d", n, 500*spaceValue)
	}
}

// What is retained for some time is garbage afterwards, without a look at the files.
func TestAgedHistoryIsGarbage(t *testing.T) {
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.Policy.Age = time.Minute })
	defer s.close()
	s.overwrite(0, 500)
	s.flush()
	s.overwrite(0, 500)
	s.flush()
	hidden := func() (n uint64) {
		for _, bytes := range s.engine.policyState(s.engine.views.Current()).Hidden {
			n += bytes
		}
		return n
	}
	if n := hidden(); n != 0 {
		t.Errorf("%d bytes of a second are hidden, of what is kept for a minute", n)
	}
	due := s.engine.nextExpiryDue(true)
	if want := uint64(s.clock) + 60_001; due != want {
		t.Errorf("the next is dead at %d, want %d", due, want)
	}
	s.clock = int64(due)
	if n := hidden(); n < 400*spaceValue || n > 600*spaceValue {
		t.Errorf("%d bytes are hidden after a minute, want about %d", n, 500*spaceValue)
	}
}

// What nothing can make smaller slows nobody down.
func TestBrakeNeedsSomethingToWaitFor(t *testing.T) {
	s := spaceStore(t, 200)
	defer s.close()
	s.engine.budget.copying.Add(1 << 30)
	if s.engine.budget.throttleDelays() != 0 {
		t.Errorf("writers are slowed by %v, and no work would end it", s.engine.budget.throttleDelays())
	}
	s.engine.budget.copying.Add(-1 << 30)
	s.seal()
	s.engine.budget.copying.Add(1 << 30)
	if s.engine.budget.throttleDelays() == 0 {
		t.Error("writers are not slowed")
	}
}

// Garbage goes up and down around where writers are slowed: that is told of once,
// until it is well below.
func TestGarbageSlowsOnce(t *testing.T) {
	var told []string
	s := newStore(t, vfs.NewMem(), func(s *store) {
		s.cfg.OnStall = func(e report.Stall) { told = append(told, fmt.Sprint(e.Begin, " ", e.Reason)) }
	})
	defer s.close()
	at := func(excess uint64, writer bool) {
		space := policy.Garbage{Live: 200 << 20, Excess: excess << 20, Budget: 100 << 20, Reducible: true}
		s.engine.budget.measured.Store(&measured{space, s.engine.budget.older.Load()})
		s.engine.Commits.throttle.endStall()
		if writer {
			s.engine.Commits.throttle.beginStall()
		}
	}
	for range 3 {
		at(90, true)
		at(80, false)
		at(80, true)
	}
	at(60, false)
	at(80, true)
	if got, want := fmt.Sprint(told), "[true garbage waits to be collected false garbage waits to be collected]"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// Deletes of small ranges do not have a large base written again and again, also
// where nothing is known of what runs hide, as they are from before Open. The delete of a large
// range does, once; where what it hides is kept for some time, after that time.
func TestSmallRangeDeletesLeaveTheBase(t *testing.T) {
	const keys, size = 8000, 4000
	for name, age := range map[string]time.Duration{"kept": time.Hour, "not kept": 0} {
		t.Run(name, func(t *testing.T) {
			bases := 0
			s := newStore(t, vfs.NewMem(), func(s *store) {
				s.cfg.Policy.Age = age
				s.cfg.OnWork = func(w Work) {
					if w.Kind == "compaction" && w.EntriesIn >= keys/2 {
						bases++
					}
				}
			})
			for i := range keys {
				key := fmt.Sprintf("k%05d", i)
				s.must(s.commit(false, set(key, bulk(key, size))))
			}
			s.flush()
			s.must(s.engine.Work.Compact(context.Background()))
			bases = 0
			work := func(op op) {
				s.must(s.commit(false, op))
				s.flush()
				if age == 0 {
					s.close() // what its run hides is not known any more
					s.mustOpen()
				}
				s.compactPlanned(whileBusy)
			}
			for i := range 20 {
				key := fmt.Sprintf("k%05d", i)
				work(delRange(key, key+"x"))
			}
			if bases != 0 {
				t.Errorf("the base was written %d times for 20 keys", bases)
			}
			work(delRange("k00500", "kz"))
			work(delRange("k00020", "k00021"))
			if age > 0 {
				if bases != 0 {
					t.Errorf("the base was written %d times for what is kept", bases)
				}
				s.clock += 2 * age.Milliseconds()
				s.compactPlanned(whileBusy)
			}
			if bases != 1 {
				t.Errorf("the base was written %d times for most keys", bases)
			}
			s.close()
		})
	}
}
