package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// rekeyed is a store whose files name their keys.
type rekeyed struct {
	*store
	key crypt.ID
}

func (s *rekeyed) keyID() crypt.FileKeyID {
	return crypt.FileKeyID{Key: s.key, Salt: [16]byte{1}, Cipher: 1}
}

func (s *rekeyed) number() entry.FileNum {
	s.next++
	return s.next
}

func (s *rekeyed) addRun(drop []layout.RunID, tier layout.Tier, order uint64, refs []layout.SegmentRef) {
	r := layout.Run{ID: layout.RunID(s.number()), Tier: tier, Order: order}
	r.Files, r.Entries, r.Refs = []layout.RunFile{{Num: s.number(), Size: 10 << 20, KeyID: s.keyID()}}, 1000, refs
	s.apply(&layout.Edit{DropRuns: drop, AddRuns: []layout.Run{r}})
}

func (s *rekeyed) flush(segments int) {
	var refs []layout.SegmentRef
	for range segments {
		n := s.number()
		s.apply(&layout.Edit{AddSegments: []layout.Segment{{Num: n, Kind: filename.Value, FileBytes: 20 << 20, Records: 1000, Bytes: 20 << 20, KeyID: s.keyID()}}})
		refs = append(refs, layout.SegmentRef{Segment: n, Records: 1000, Bytes: 20 << 20})
	}
	s.addRun(nil, layout.Upper, s.layout.NextOrder(), refs)
}

// compact does it, and leads handles past forwarding tables.
func (s *rekeyed) compact(c *Compaction) {
	sum := map[entry.FileNum]layout.SegmentRef{}
	var order uint64
	for _, id := range c.Runs {
		r := s.layout.Run(id)
		order = max(order, r.Order)
		for _, f := range r.Refs {
			if st := s.layout.Segment(f.Segment).State(); st.Status == layout.Relocated {
				f.Segment = st.Target
			}
			to := sum[f.Segment]
			sum[f.Segment] = layout.SegmentRef{Segment: f.Segment, Records: to.Records + f.Records, Bytes: to.Bytes + f.Bytes}
		}
	}
	var refs []layout.SegmentRef
	for _, f := range sum {
		refs = append(refs, f)
	}
	slices.SortFunc(refs, func(a, b layout.SegmentRef) int { return int(a.Segment) - int(b.Segment) })
	s.addRun(c.Runs, tierOf(c, s.layout), order, refs)
}

func (s *rekeyed) collect(c *Collection) {
	target := layout.Segment{Num: s.number(), Kind: filename.Value, KeyID: s.keyID()}
	e := &layout.Edit{}
	for _, num := range c.Victims {
		m := s.layout.Segment(num)
		target.FileBytes, target.Records, target.Bytes = target.FileBytes+m.FileBytes, target.Records+m.Records, target.Bytes+m.Bytes
		e.States = append(e.States, layout.SegmentState{Num: num, Status: layout.Relocated, Map: s.number(), Target: target.Num, KeyID: s.keyID()})
	}
	e.AddSegments = []layout.Segment{target}
	s.apply(e)
}

// rest does all that is planned, and returns how much that was.
func (s *rekeyed) rest(st State) (works int) {
	for ; ; works++ {
		p := Decide(s.layout, st, Options{})
		switch {
		case len(p.DropSegments) > 0:
			s.apply(&layout.Edit{DropSegments: p.DropSegments})
		case p.Collect != nil:
			s.collect(p.Collect)
		case p.Compaction != nil:
			s.compact(p.Compaction)
		default:
			return works
		}
		relocated := 0
		for _, m := range s.layout.Segments() {
			if m.State().Status == layout.Relocated {
				relocated++
			}
		}
		if relocated > maxForwardings {
			s.t.Fatalf("%d forwarding tables", relocated)
		}
		if works > 300 {
			s.t.Fatalf("the policy does not come to rest:\n%v", s.layout.Runs())
		}
	}
}

func (s *rekeyed) old() (files int) {
	for f := range s.layout.Files() {
		if s.layout.IsOld(f.KeyID) {
			files++
		}
	}
	return files
}

func newRekeyed(t testing.TB) *rekeyed {
	s := &rekeyed{store: newStore(t), key: crypt.ID{1}}
	s.apply(&layout.Edit{DataKey: layout.DataKey{ID: s.key}})
	return s
}

func (s *rekeyed) rotate(rewrite bool) {
	s.key[0]++
	s.apply(&layout.Edit{DataKey: layout.DataKey{ID: s.key, Rewrite: rewrite}})
}

// TestRekey: whatever the store consists of, all of it is rewritten in the end, once
// each; without Rewrite nothing is.
func TestRekey(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 8))
		s := newRekeyed(t)
		for range 1 + rng.IntN(4) {
			s.flush(rng.IntN(12))
			s.rest(State{Idle: rng.IntN(3) == 0})
		}
		// Forwardings of before, in the way.
		s.rotate(true)
		for range rng.IntN(3) {
			if c := Decide(s.layout, State{}, Options{}).Collect; c != nil {
				s.collect(c)
			}
		}
		s.rotate(false)
		before := s.old()
		if before == 0 {
			t.Fatalf("seed %d: nothing is under an old key", seed)
		}
		s.rest(State{})
		if s.old() == 0 {
			t.Errorf("seed %d: rewritten, and nobody asked for it", seed)
		}
		s.rotate(true)
		segments, runs := len(s.layout.Segments()), len(s.layout.Runs())
		works := s.rest(State{})
		if n := s.old(); n > 0 {
			t.Errorf("seed %d: %d files of %d are still under an old key", seed, n, before)
		}
		if most := 2*segments + 3*runs + 4; works > most {
			t.Errorf("seed %d: %d works for %d segments and %d runs", seed, works, segments, runs)
		}
	}
}

// TestRekeyRewritesHandles: a collection that was under way when the key was changed may leave a
// forwarding table under the old one behind, when the runs that lead through it are rewritten
// already.
func TestRekeyRewritesHandles(t *testing.T) {
	s := newRekeyed(t)
	s.flush(2)
	victim := s.layout.Segments()[0].Num
	s.rotate(true)
	for n := s.layout.Runs()[0]; s.layout.IsOld(n.Files[0].KeyID); n = s.layout.Runs()[0] {
		s.compact(newCompaction(s.layout.Runs(), "first"))
	}
	now := s.key
	s.key[0]--
	s.collect(&Collection{Victims: []entry.FileNum{victim}})
	s.key = now
	s.rest(State{})
	if n := s.old(); n > 0 {
		t.Errorf("%d files are still under an old key", n)
	}
}

// TestRekeyWaits for what is more urgent, and for disk space; it leaves out what is damaged.
func TestRekeyWaits(t *testing.T) {
	s := newRekeyed(t)
	s.flush(3)
	s.rotate(true)
	if p := Decide(s.layout, State{DiskSpace: 1 << 20}, Options{}); p.Collect != nil || p.Compaction != nil {
		t.Errorf("without disk space: %v", p.text(s.layout))
	}
	for range 5 {
		s.flush(0)
	}
	p := Decide(s.layout, State{Collecting: true}, Options{})
	if p.Compaction == nil || len(p.Compaction.Runs) == 1 {
		t.Errorf("with many runs: %v", p.text(s.layout))
	}
	damaged := s.layout.Segments()[0].Num
	s.rest(State{Damaged: []entry.FileNum{damaged}})
	if n := s.old(); n != 1 || !s.layout.IsOld(s.layout.Segment(damaged).KeyID) {
		t.Errorf("%d files are under an old key", n)
	}
	s.flush(2)
	s.rotate(true)
	run := s.layout.Runs()[0]
	s.rest(State{Damaged: []entry.FileNum{run.Files[0].Num}})
	if n, still := s.old(), s.layout.Run(run.ID); n != len(run.Files) || still == nil {
		t.Errorf("%d files are under an old key, the damaged run is %v", n, still)
	}
}
