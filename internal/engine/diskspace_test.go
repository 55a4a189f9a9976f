package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/report"
	"github.com/brockdb/brock/vfs"
)

func payloadOf(ops ...op) (payload []byte) {
	for _, o := range ops {
		payload = entry.AppendRecord(payload, &entry.Entry{Key: []byte(o.key), Value: o.value, Kind: o.kind}, false)
	}
	return entry.PadRecords(payload)
}

// drain runs what waits to run.
func (s *store) drain() {
	for ok := true; ok; {
		_, ok, _ = s.engine.cfg.Jobs.Step()
	}
}

// While no more than the reserve is left, deletes pass and sets don't, also beside
// deletes; a quiet store that has room has no timer, one that has none looks.
func TestReserveIsForDeletes(t *testing.T) {
	mem := vfs.NewMem()
	var told []report.DiskSpace
	s := newStore(t, mem, func(s *store) { s.cfg.OnSpace = func(i report.DiskSpace) { told = append(told, i) } })
	defer s.close()
	jobs := s.engine.cfg.Jobs
	ctx := context.Background()
	for i := range 50 {
		s.must(s.commit(false, set(fmt.Sprint("key", i), bulk("v", 1000))))
	}
	s.flush()
	jobs.Idle()
	s.drain()
	pass := func(payload []byte, what string, want error) {
		t.Helper()
		if err := s.engine.Commits.Throttle(ctx, payload); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	sets, deletes := payloadOf(set("a", []byte("1"))), payloadOf(del("a"), del("b"))
	pass(sets, "a set, with all the space there is", nil)
	mem.SetCapacity(mem.Used() + policy.ReserveSlackBytes - 8192)
	s.engine.Work.disk.measureSpace()
	pass(deletes, "deletes", nil)
	pass(sets, "a set", errs.ErrNoSpace)
	pass(payloadOf(del("b"), set("a", nil)), "a set beside a delete", errs.ErrNoSpace)
	if len(told) != 1 || !told[0].Full || told[0].Left >= told[0].Reserve {
		t.Errorf("told %+v", told)
	}
	if s.engine.Metrics().Refused != 2 {
		t.Errorf("%d are counted as refused", s.engine.Metrics().Refused)
	}
	for range 3 { // it looks, and looks again
		if jobs.Idle() == 0 {
			t.Error("nobody looks whether there is room again")
		}
		s.drain()
	}
	pass(sets, "a set later", errs.ErrNoSpace)
	mem.SetCapacity(mem.Used() + 4*policy.ReserveSlackBytes)
	jobs.Idle()
	s.drain()
	pass(sets, "a set, when there is room again", nil)
	if len(told) != 2 || told[1].Full {
		t.Errorf("told %+v", told)
	}
	jobs.Idle()
	s.drain()
	if n := jobs.Idle(); n != 0 {
		t.Errorf("%d timers in a quiet store with room", n)
	}
}

// Whatever write of a flush, merge or collection finds the disk full: all is as
// before, no file stays, background work has not ended, and the same work
// succeeds when there is room again, in the same store.
func TestNoRoomAtEveryWriteOfWork(t *testing.T) {
	for nth := 1; ; nth++ {
		mem := vfs.NewMem()
		faults := faultfs.New(mem, faultfs.Options{})
		s := newStore(t, faults, func(s *store) { s.cfg.SegmentBytes = 16 << 10; s.cfg.NoMap = nth%2 == 0 })
		for i := range 3 {
			for k := range 9 {
				key := fmt.Sprint("k", k)
				s.must(s.commit(true, set(key, bulk(key, 10+900*(k%3)+i))))
			}
			if i < 2 {
				s.flush()
			}
		}
		s.seal()
		full := faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Nth: nth, Times: 3, Err: faultfs.ErrNoSpace, Short: nth%3 > 0}
		faults.Inject(full)
		var failed error
		for range 5 { // each try meets a few of the failures
			err := s.engine.Work.flusher.flushSealed(context.Background())
			if err == nil {
				_, err = s.engine.Work.Reclaim(context.Background())
			}
			if err != nil && (!vfs.IsNoSpace(err) || errors.Is(err, errs.ErrStopped)) {
				t.Fatalf("write %d: %v", nth, err)
			}
			failed = errors.Join(failed, err)
			holdsAll(t, s, nth)
		}
		hit := faults.Struck() > 0
		if hit && failed == nil {
			t.Fatalf("write %d: %d writes failed, and nobody said so", nth, faults.Struck())
		}
		faults.Heal()
		s.must(s.commit(true, set("k0", bulk("k0", 12))))
		s.flush()
		if _, err := s.engine.Work.Reclaim(context.Background()); err != nil {
			t.Fatalf("write %d: with room: %v", nth, err)
		}
		holdsAll(t, s, nth)
		if problems := s.check(); problems != "" {
			t.Fatalf("write %d: %s", nth, problems)
		}
		had := names(t, mem)
		s.close()
		s.mustOpen()
		if s.rec.Removed > 0 {
			t.Fatalf("write %d: %d files were left over, of\n%s", nth, s.rec.Removed, had)
		}
		holdsAll(t, s, nth)
		s.close()
		if !hit {
			t.Logf("%d writes", nth-1)
			return
		}
	}
}

func holdsAll(t *testing.T, s *store, n int) {
	t.Helper()
	p := s.pin(0)
	defer p.Release()
	for k := range 9 {
		key := fmt.Sprint("k", k)
		value, _, found := s.lookup(p, key)
		if want := 12 + 900*(k%3); !found || len(value) != want || string(value) != string(bulk(key, want)) {
			t.Fatalf("write %d: %s = %s, %v", n, key, shown(key, value), found)
		}
	}
}
