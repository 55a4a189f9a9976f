package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// unclustered is a store with a segment of two values for each of n flushes, the
// keys of which lie across each other, and the events of its clusterings.
func unclustered(t *testing.T, n int, before func(faultfs.Op)) (s *store, mem *vfs.Mem, works *[]Work) {
	t.Helper()
	mem, works = vfs.NewMem(), new([]Work)
	s = newStore(t, faultfs.New(mem, faultfs.Options{Before: before}), func(s *store) {
		s.cfg.OnWork = func(w Work) {
			if w.Kind == "clustering" {
				*works = append(*works, w)
			}
		}
	})
	for i := range n {
		s.must(s.commit(true, set(fmt.Sprintf("a%02d", n-i), bulk("a", 1000)), set(fmt.Sprintf("b%02d", i), bulk("b", 1000))))
		s.flush()
	}
	s.rest()
	return s, mem, works
}

func (s *store) rest() {
	s.t.Helper()
	s.must(s.engine.Work.idle(context.Background()))
	if s.failure != nil {
		s.t.Fatal(s.failure)
	}
}

// scan tells the store of bytes that iterators jumped to.
func (s *store) scan(bytes uint64) {
	s.engine.Work.Clustering.AddJumped(bytes)
}

// all checks that n pairs of values are there.
func (s *store) all(n int) {
	s.t.Helper()
	p := s.pin(0)
	defer p.Release()
	for i := range n {
		for prefix, key := range map[string]string{"a": fmt.Sprintf("a%02d", n-i), "b": fmt.Sprintf("b%02d", i)} {
			if v, _, ok := s.lookup(p, key); !ok || string(v) != string(bulk(prefix, 1000)) {
				s.t.Errorf("%s is lost", key)
			}
		}
	}
	if problems := s.check(); problems != "" {
		s.t.Error(problems)
	}
}

// Writers that come back end a clustering, which leaves nothing behind; its price
// is paid again before the next one, so that work in vain is bounded, too.
func TestClusteringGivesWayToWriters(t *testing.T) {
	const n = 10
	var s *store
	interrupt := false
	s, mem, works := unclustered(t, n, func(op faultfs.Op) {
		if interrupt && op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".val") {
			interrupt = false
			s.must(s.commit(false, set("busy", bulk("busy", s.cfg.MemtableBytes/policy.IdleSealFraction+1))))
		}
	})
	price := s.engine.views.Current().Unclustered.Price
	before := s.engine.views.Current().Layout.Segments()
	interrupt = true
	s.scan(price + 5)
	s.rest()
	if len(*works) != 1 || (*works)[0].Err == nil || s.engine.Work.Clustering.jumped.Load() != 5 {
		t.Errorf("work %+v, %d jumped bytes are left", *works, s.engine.Work.Clustering.jumped.Load())
	}
	after := s.engine.views.Current().Layout.Segments()
	if len(after) < len(before) || after[0].Num != before[0].Num {
		t.Errorf("segments %v, %v before", after, before)
	}
	s.noLeftovers(mem)
	s.all(n)
	s.rest()
	if len(*works) != 1 {
		t.Error("tried again, and nobody has paid")
	}
	s.scan(2 * price)
	s.rest()
	if len(*works) != 2 || (*works)[1].Err != nil {
		t.Errorf("work %+v", *works)
	}
	s.noLeftovers(mem)
	s.all(n)
	s.close()
}

// A clustering needs room for what it moves, and waits for it.
func TestClusteringNeedsRoom(t *testing.T) {
	const n = 10
	s, _, works := unclustered(t, n, nil)
	used := s.engine.files.Bytes()
	s.close()
	s.cfg.DiskLimit = used + 4<<10
	s.mustOpen()
	s.scan(1 << 20)
	s.rest()
	if len(*works) != 0 || s.engine.Work.Clustering.jumped.Load() != 1<<20 {
		t.Errorf("work %+v with no room, %d jumped bytes are left", *works, s.engine.Work.Clustering.jumped.Load())
	}
	s.all(n)
	s.close()
	s.cfg.DiskLimit = 0
	s.mustOpen()
	s.scan(1 << 20)
	s.rest()
	if len(*works) != 1 || (*works)[0].Err != nil {
		t.Errorf("work %+v", *works)
	}
	s.all(n)
	s.close()
}

// A value that can't be read stays where it is, with all of its segment.
func TestClusteringLeavesDamageAlone(t *testing.T) {
	const n = 10
	s, mem, works := unclustered(t, n, nil)
	first := s.engine.views.Current().Layout.Segments()[0]
	s.close()
	damage(t, mem, s.engine.cfg.Path(nameOf(first)), 4096+48+500)
	s.mustOpen()
	s.scan(1 << 20)
	s.rest()
	if len(*works) != 2 || (*works)[0].Err == nil || (*works)[1].Err != nil {
		t.Errorf("work %+v", *works)
	}
	if st := s.engine.views.Current().Layout.Segment(first.Num); st == nil || st.State().Status != layout.Live || len(s.engine.views.Current().Layout.Segments()) != 2 {
		t.Errorf("segments %v", s.engine.views.Current().Layout.Segments())
	}
	s.noLeftovers(mem)
	s.close()
}

// Whatever fails, the store is as it was; it is not tried for ever, as that might
// fill the disk again and again.
func TestFailedClusteringHarmsNobody(t *testing.T) {
	const n = 10
	for nth := 1; ; nth++ {
		s, mem, works := unclustered(t, n, nil)
		fs := s.fs.(*faultfs.FS)
		fs.Inject(faultfs.Fault{Kinds: faultfs.Opens | faultfs.Write | faultfs.Truncate | faultfs.Syncs, Path: ".val", Nth: nth, Err: faultfs.ErrNoSpace})
		s.scan(1 << 20)
		s.rest()
		struck := fs.Struck() > 0
		fs.Heal()
		if !struck {
			s.close()
			if nth < 5 {
				t.Errorf("only %d operations", nth)
			}
			return
		}
		s.noLeftovers(mem)
		s.all(n)
		s.scan(1 << 20)
		s.rest()
		if failed := len(*works) > 0 && (*works)[0].Err != nil; len(*works) > 1 {
			t.Errorf("operation %d: failed %v, tried again: %+v", nth, failed, *works)
		}
		s.close()
	}
}
