package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// A run that is wholly below range deletes leaves without being read, with the
// segments that only such runs refer to; one that is not, or that shares a segment
// with another, is read.
func TestCoveredRunsAreNotRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		delete []op
		read   bool
	}{
		{"all", []op{delRange("k", "kz")}, false},
		{"by two that meet", []op{delRange("k", "k030"), delRange("k030", "kz")}, false},
		{"by some that overlap, and more", []op{delRange("k020", "kz"), delRange("k", "k040"), delRange("k1", "k9"), set("n", bulk("n", 2000))}, false},
		{"not the first key", []op{delRange("k0001", "kz")}, true},
		{"not the last key", []op{delRange("k", "k059")}, true},
		{"not one between", []op{delRange("k", "k030"), delRange("k0300", "kz")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var merges []Work
			s := newStore(t, vfs.NewMem(), func(s *store) {
				s.cfg.OnWork = func(w Work) {
					if w.Kind == "compaction" {
						merges = append(merges, w)
					}
				}
			})
			for i := range 60 {
				s.must(s.commit(false, set(fmt.Sprintf("k%03d", i), bulk("v", 2000))))
			}
			s.flush()
			s.must(s.engine.Work.Compact(context.Background()))
			old := s.pin(0)
			defer old.Release()
			s.must(s.commit(true, c.delete...))
			merges = nil
			s.flush()
			size := int64(0)
			for _, r := range s.engine.views.Current().Layout.Runs() {
				size += int64(r.FileBytes())
			}
			s.must(s.engine.Work.Compact(context.Background()))
			if len(merges) != 1 || (merges[0].BytesIn == size) != c.read {
				t.Errorf("merges %+v, of runs of %d bytes", merges, size)
			}
			if out := s.check(); out != "" {
				t.Error(out)
			}
			p := s.pin(0)
			defer p.Release()
			left := 0
			for i := range 60 {
				key := fmt.Sprintf("k%03d", i)
				if _, _, found := s.lookup(p, key); found {
					left++
				}
				if v, _, found := s.lookup(old, key); !found || len(v) != 2000 {
					t.Errorf("a reader from before lacks %s", key)
				}
			}
			if (left > 0) != c.read {
				t.Errorf("%d keys are left", left)
			}
			if !c.read {
				for _, seg := range s.engine.views.Current().Layout.Segments() {
					if seg.Bytes > 2000 {
						t.Errorf("segment %d of %d bytes is left", seg.Num, seg.Bytes)
					}
				}
			}
		})
	}
}

// Where old versions are kept, a key's history goes on below a range delete whose
// transaction has set it again.
func TestCoveredRunsWithHistoryAreRead(t *testing.T) {
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.Policy.Versions = 2 })
	s.must(s.commit(true, set("k", []byte("1"))))
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	s.must(s.commit(true, delRange("k", "kz"), set("k", []byte("2"))))
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	if n := s.engine.views.Current().Layout.Runs()[0].Entries; n != 2 {
		t.Errorf("%d entries, want both versions", n)
	}
}

// A segment that a run refers to which stays is worth reading for.
func TestCoveredRunsOfSharedSegmentsAreRead(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	for i := range 20 {
		s.must(s.commit(false, set(fmt.Sprintf("a%03d", i), bulk("v", 2000)), set(fmt.Sprintf("b%03d", i), bulk("v", 2000))))
	}
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	s.must(s.commit(true, delRange("a", "b")))
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	if out := s.check(); out != "" {
		t.Error(out)
	}
	for _, seg := range s.engine.views.Current().Layout.Segments() {
		if seg.Records != 40 || seg.DeadRecords() != 20 {
			t.Errorf("segment %d: %d of %d records dead", seg.Num, seg.DeadRecords(), seg.Records)
		}
	}
}

// A collection has moved what two runs have to one segment. The run that is merged then
// refers to that itself, and alone. What the other run has is there too.
func TestCoveredRunsOfTargetsAreRead(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	twoCollectableRuns(s)
	if did, err := s.engine.Work.collector.collectPlanned(context.Background(), onRequest); !did || err != nil {
		t.Fatalf("collected: %v, %v", did, err)
	}
	runs := s.engine.views.Current().Layout.Runs()
	s.must(s.engine.Work.compactor.carryOut(context.Background(), &policy.Compaction{Runs: []layout.RunID{runs[1].ID}, Reason: "test"}))
	s.must(s.commit(false, delRange("a", "b")))
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	if out := s.check(); out != "" {
		t.Error(out)
	}
	segments := s.engine.views.Current().Layout.Segments()
	if len(segments) != 1 || segments[0].Records != 40 || segments[0].DeadRecords() != 20 {
		t.Errorf("segments %v, want one with 20 of 40 records dead", segments)
	}
}

// twoCollectableRuns makes a run of keys with a and a newer one with b. Each has a segment of
// its own, of which a third is left.
func twoCollectableRuns(s *store) {
	s.t.Helper()
	for at, prefix := range []string{"a", "b"} {
		for i := range 60 {
			s.must(s.commit(false, set(keyOf(prefix, i), bulk("v", 5000))))
		}
		s.flush()
		for i := range 40 {
			s.must(s.commit(false, del(keyOf(prefix, i))))
		}
		s.flush()
		runs := s.engine.views.Current().Layout.Runs()
		s.must(s.engine.Work.compactor.carryOut(context.Background(), &policy.Compaction{Runs: []layout.RunID{runs[0].ID, runs[1].ID}, Reason: "test"}))
		if n := len(s.engine.views.Current().Layout.Runs()); n != at+1 {
			s.t.Fatalf("%d runs", n)
		}
	}
}

func keyOf(prefix string, i int) string { return fmt.Sprintf("%s%03d", prefix, i) }

// A segment that only a covered run refers to may be collected, together with
// others, while the merge goes on: what was moved of it is dead where it is then.
func TestCoveredRunsOfSegmentsCollectedMeanwhile(t *testing.T) {
	var during func()
	mem := vfs.NewMem()
	s := newStore(t, faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if fn := during; fn != nil && op.Kind == faultfs.Create {
			during = nil
			fn()
		}
	}}), nil)
	twoCollectableRuns(s)
	s.must(s.commit(false, delRange("a", "b")))
	s.flush()
	during = func() {
		did, err := s.engine.Work.collector.collectPlanned(context.Background(), onRequest)
		s.must(err)
		if targets := len(s.engine.views.Current().Layout.Segments()); !did || targets != 3 {
			t.Errorf("collected: %v, %d segments", did, targets)
		}
	}
	s.must(s.engine.Work.Compact(context.Background()))
	if during != nil {
		t.Error("nothing was created")
	}
	if out := s.check(); out != "" {
		t.Error(out)
	}
	if _, err := s.engine.Work.Reclaim(context.Background()); err != nil {
		t.Error(err)
	}
	segments := s.engine.views.Current().Layout.Segments()
	if len(segments) != 1 || segments[0].Records != 20 {
		t.Errorf("%d segments, the first of %d records", len(segments), segments[0].Records)
	}
	p := s.pin(0)
	defer p.Release()
	for i := range 60 {
		if _, _, found := s.lookup(p, keyOf("b", i)); found != (i >= 40) {
			t.Errorf("%s is there: %v", keyOf("b", i), found)
		}
	}
}
