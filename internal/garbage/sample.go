package garbage

import (
	"math"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// Sampler estimates what new entries replace, by looking up some of them. Only the commit
// leader uses it.
type Sampler struct {
	views  *view.Set
	leader *view.Pin
	budget *Budget
	seed   uint64 // of the key hash
	keeps  bool   // the default keyspace retains older versions

	unsampled int64 // bytes of records since the last sample
	largest   int64 // bytes of the largest record lately added or looked at
}

// Every is the number of bytes of records for which one sample is taken. Few of the
// looks may go to the disk: the more is live, the rarer they are.
func (s *Sampler) Every() int64 {
	live := int64(s.budget.measured.Load().Live)
	return min(max(live/policy.SampleFraction, policy.SampleLeastBytes), policy.SampleMostBytes)
}

// Sample adds what a record replaces to the active memtable's estimates. Call it before the
// record itself is added to the memtable.
func (s *Sampler) Sample(r *entry.Record, every int64) {
	weight := int64(r.Size)
	s.note(weight)
	switch r.Kind {
	case entry.Delete:
		// A look that finds a large value stands for as many as the delete weighs little.
		weight += max(policy.SampleDeleteBytes, s.largest/policy.SampleLargest)
	case entry.RangeDelete:
		s.lookAtRange(r)
	}
	if s.unsampled += weight; s.unsampled >= every {
		stands := s.unsampled / every * every
		s.unsampled -= stands
		s.look(r, float64(stands)/float64(weight))
	}
}

// note notes the size of a record. What is much larger than those that follow is forgotten
// in time: by half while some 700,000 of them come.
func (s *Sampler) note(size int64) { s.largest = max(size, s.largest-s.largest>>20) }

// NewSampler returns a Sampler of the commit leader, whose Pin it looks with; keeps
// says whether the default keyspace retains older versions.
func NewSampler(views *view.Set, leader *view.Pin, budget *Budget, seed uint64, keeps bool) *Sampler {
	return &Sampler{views: views, leader: leader, budget: budget, seed: seed, keeps: keeps}
}

// retains reports whether older versions of a key are kept for some time: what
// replaces them makes no garbage.
func (s *Sampler) retains(key []byte) bool {
	id, ok := entry.KeyspaceOf(key)
	if k := s.views.Current().Layout.Keyspace(id); ok && k != nil {
		return k.Options.Versions > 1 || k.Options.Age > 0
	}
	return s.keeps
}

// retainsAny reports whether older versions of any key are kept for some time.
func (s *Sampler) retainsAny() bool {
	return s.retains(entry.AppendKeyspace(nil, entry.DefaultKeyspace)) ||
		slices.ContainsFunc(s.views.Current().Layout.Keyspaces(), func(k layout.Keyspace) bool { return k.Options.Versions > 1 || k.Options.Age > 0 })
}

// HiddenBy is how many bytes of older values the run of a flushed memtable hides.
func (s *Sampler) HiddenBy(m *view.Table) int64 {
	if m.Replayed || s.retainsAny() {
		return view.Unknown
	}
	return m.Replaced.Load()
}

// look finds what a record replaces, and counts it `times` times, as the sample stands for
// other records, too. What can't be read is not counted: a reader of it gets the error.
func (s *Sampler) look(r *entry.Record, times float64) {
	if s.retains(r.Key) {
		return
	}
	h := hash.Sum(s.seed, r.Key)
	active, before := s.views.Current().Active(), entry.Version(max(r.Version, 1)-1)
	var e entry.Entry
	to := &active.Outdated
	if !active.Get(r.Key, h, before, &e) {
		to = &active.Replaced
		if !s.lookBelow(r.Key, h, before, &e) {
			return
		}
	}
	if e.Kind == entry.Delete {
		return
	}
	if to == &active.Replaced {
		active.ReplacedEntries.Add(int64(math.Round(times)))
	}
	if !e.Separated {
		return
	}
	s.note(int64(e.Handle.Length))
	n := int64(float64(e.Handle.Length) * times)
	to.Add(n)
	s.budget.older.Add(n)
}

// lookAtRange counts what a range delete hides in runs. It leaves out what older tombstones
// cover, which was counted for those.
func (s *Sampler) lookAtRange(r *entry.Record) {
	if s.retains(r.Key) {
		return
	}
	s.leader.Enter()
	n := s.leader.Unhidden(r.Key, r.Value, r.Version-1)
	s.leader.Leave()
	s.views.Current().Active().Replaced.Add(n)
	s.budget.older.Add(n)
}

func (s *Sampler) lookBelow(key []byte, h uint64, at entry.Version, e *entry.Entry) bool {
	s.leader.Enter()
	defer s.leader.Leave()
	found, err := s.leader.GetAt(key, h, at, e)
	return found && err == nil
}
