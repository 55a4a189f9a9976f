package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

const (
	unsortedSegments = 4
	unsortedValue    = 2_200_000                          // two of them make a journal segment that is kept
	unsortedPrice    = 2*unsortedValue + unsortedValue/10 // jumped bytes that just pay for all of them
)

// unsorted is a store with a journal segment of two values for each of some flushes, the keys of
// which lie across each other, and the events of its clusterings.
func unsorted(t *testing.T, before func(faultfs.Op)) (s *store, mem *vfs.Mem, works *[]Work) {
	t.Helper()
	mem, works = vfs.NewMem(), new([]Work)
	s = newStore(t, faultfs.New(mem, faultfs.Options{Before: before}), func(s *store) {
		s.cfg.OnWork = func(w Work) {
			if w.Reason == "scans jump" {
				*works = append(*works, w)
			}
		}
	})
	for i := range unsortedSegments {
		s.must(s.commit(true, set(fmt.Sprintf("a%02d", unsortedSegments-i), bulk("a", unsortedValue)), set(fmt.Sprintf("b%02d", i), bulk("b", unsortedValue))))
		s.flush()
	}
	s.rest()
	if n := s.journals(); n != unsortedSegments {
		t.Fatalf("%d segments that the journal left", n)
	}
	return s, mem, works
}

func (s *store) rest() {
	s.t.Helper()
	s.must(s.engine.Work.workAtRest(context.Background()))
	if s.failure != nil {
		s.t.Fatal(s.failure)
	}
}

// journals counts the segments that the journal has left.
func (s *store) journals() (n int) {
	for _, m := range s.engine.views.Current().Layout.Segments() {
		if m.Kind == filename.Journal {
			n++
		}
	}
	return n
}

// all checks that all values are there.
func (s *store) all() {
	s.t.Helper()
	p := s.pin(0)
	defer p.Release()
	for i := range unsortedSegments {
		for prefix, key := range map[string]string{"a": fmt.Sprintf("a%02d", unsortedSegments-i), "b": fmt.Sprintf("b%02d", i)} {
			if v, _, ok := s.lookup(p, key); !ok || string(v) != string(bulk(prefix, unsortedValue)) {
				s.t.Errorf("%s is lost", key)
			}
		}
	}
	if problems := s.check(); problems != "" {
		s.t.Error(problems)
	}
}

// Writers that come back end a clustering, which leaves nothing behind and has paid; so work in
// vain is bounded, too.
func TestClusteringGivesWayToWriters(t *testing.T) {
	var s *store
	interrupt := false
	s, mem, works := unsorted(t, func(op faultfs.Op) {
		if interrupt && op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".val") {
			interrupt = false
			s.must(s.commit(false, set("busy", bulk("busy", s.cfg.MemtableBytes/policy.IdleSealFraction+1))))
		}
	})
	interrupt = true
	s.engine.Work.AddJumped(unsortedPrice)
	s.rest()
	if left := s.engine.Work.compactor.jumped.Load(); len(*works) != 1 || (*works)[0].Err == nil || left >= unsortedPrice {
		t.Errorf("work %+v, %d jumped bytes are left", *works, left)
	}
	if n := s.journals(); n != unsortedSegments {
		t.Errorf("%d segments that the journal left", n)
	}
	s.noLeftovers(mem)
	s.all()
	s.rest()
	if len(*works) != 1 {
		t.Error("tried again, and nobody has paid")
	}
	s.engine.Work.AddJumped(unsortedPrice)
	s.rest()
	if n := s.journals(); n != 0 {
		t.Errorf("%d segments that the journal left after work %+v", n, *works)
	}
	s.noLeftovers(mem)
	s.all()
	s.close()
}

// A clustering needs room for what it moves, and waits for it.
func TestClusteringNeedsRoom(t *testing.T) {
	s, _, works := unsorted(t, nil)
	used := s.engine.files.FileBytes()
	s.close()
	s.cfg.DiskLimit = used + 4<<10
	s.mustOpen()
	s.engine.Work.AddJumped(unsortedPrice)
	s.rest()
	if left := s.engine.Work.compactor.jumped.Load(); len(*works) != 0 || left != unsortedPrice {
		t.Errorf("work %+v with no room, %d jumped bytes are left", *works, left)
	}
	s.all()
	s.close()
	s.cfg.DiskLimit = 0
	s.mustOpen()
	s.engine.Work.AddJumped(unsortedPrice)
	s.rest()
	if n := s.journals(); n != 0 {
		t.Errorf("%d segments that the journal left after work %+v", n, *works)
	}
	s.all()
	s.close()
}

// A value that can't be read stays where it is, with all of its segment.
func TestClusteringLeavesDamageAlone(t *testing.T) {
	s, mem, works := unsorted(t, nil)
	first := s.engine.views.Current().Layout.Segments()[0]
	s.close()
	damage(t, mem, s.engine.cfg.Path(nameOf(first)), 4096+48+500)
	s.mustOpen()
	for range 2 { // the first one finds the damage
		s.engine.Work.AddJumped(unsortedPrice)
		s.rest()
	}
	if len(*works) != 2 || (*works)[0].Err == nil || (*works)[1].Err != nil {
		t.Errorf("work %+v", *works)
	}
	if s.journals() != 1 || s.engine.views.Current().Layout.Segment(first.Num) == nil {
		t.Errorf("segments %v", s.engine.views.Current().Layout.Segments())
	}
	s.noLeftovers(mem)
	s.close()
}

// Whatever fails, the store is as it was; it is not tried for ever, as that might
// fill the disk again and again.
func TestFailedClusteringHarmsNobody(t *testing.T) {
	for nth := 1; ; nth++ {
		s, mem, works := unsorted(t, nil)
		fs := s.fs.(*faultfs.FS)
		fs.Inject(faultfs.Fault{Kinds: faultfs.Opens | faultfs.Write | faultfs.Truncate | faultfs.Syncs, Path: ".val", Nth: nth, Err: faultfs.ErrNoSpace})
		s.engine.Work.AddJumped(unsortedPrice)
		err := s.engine.Work.workAtRest(context.Background())
		if struck := fs.Struck() > 0; !struck {
			s.must(err)
			s.close()
			if nth < 5 {
				t.Errorf("only %d operations", nth)
			}
			return
		}
		fs.Heal()
		failed := len(*works)
		s.rest()
		if len(*works) > failed {
			t.Errorf("operation %d: tried again, and nobody has paid: %+v", nth, *works)
		}
		s.noLeftovers(mem)
		s.all()
		s.close()
	}
}
