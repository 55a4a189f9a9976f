package tree

import (
	"context"
	"fmt"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// A run that is wholly below range tombstones leaves without being read, with the
// segments that only such runs refer to; one that is not, or that shares a segment
// with another, is read.
func TestCoveredRunsAreNotRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		delete []op
		read   bool
	}{
		{"all", []op{delRange("a", "z")}, false},
		{"by two that meet", []op{delRange("a", "k030"), delRange("k030", "z")}, false},
		{"by some that overlap, and more", []op{delRange("k020", "z"), delRange("a", "k040"), delRange("k1", "m"), set("n", bulk("n", 2000))}, false},
		{"not the first key", []op{delRange("k0001", "z")}, true},
		{"not the last key", []op{delRange("a", "k059")}, true},
		{"not one between", []op{delRange("a", "k030"), delRange("k0300", "z")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var merges []Work
			s := newStore(t, vfs.NewMem(), func(s *store) {
				s.cfg.OnWork = func(w Work) {
					if w.Kind == "merge" {
						merges = append(merges, w)
					}
				}
			})
			for i := range 60 {
				s.must(s.commit(false, set(fmt.Sprintf("k%03d", i), bulk("v", 2000))))
			}
			s.flush()
			s.must(s.tree.Compact(context.Background()))
			old := s.pin(0)
			defer old.Release()
			s.must(s.commit(true, c.delete...))
			merges = nil
			s.flush()
			size := int64(0)
			for _, r := range s.tree.layout().Runs() {
				size += int64(r.FileBytes())
			}
			s.must(s.tree.Compact(context.Background()))
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
				for _, seg := range s.tree.layout().Segments() {
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
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.Retention.Versions = 2 })
	s.must(s.commit(true, set("k", []byte("1"))))
	s.flush()
	s.must(s.tree.Compact(context.Background()))
	s.must(s.commit(true, delRange("a", "z"), set("k", []byte("2"))))
	s.flush()
	s.must(s.tree.Compact(context.Background()))
	if n := s.tree.layout().Runs()[0].Entries; n != 2 {
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
	s.must(s.tree.Compact(context.Background()))
	s.must(s.commit(true, delRange("a", "b")))
	s.flush()
	s.must(s.tree.Compact(context.Background()))
	if out := s.check(); out != "" {
		t.Error(out)
	}
	for _, seg := range s.tree.layout().Segments() {
		if seg.Records != 40 || seg.DeadRecords() != 20 {
			t.Errorf("segment %d: %d of %d records dead", seg.Num, seg.DeadRecords(), seg.Records)
		}
	}
}
