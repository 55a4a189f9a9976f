package engine

import (
	"math"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// sampler estimates what new entries replace, by looking up some of them. Only the commit
// leader uses it.
type sampler struct {
	*state
	leader *view.Leader

	unsampled int64 // bytes of records since the last sample
	looks     int64 // samples that the last one stood for, as it looked at many versions; 1 at first
	largest   int64 // bytes of the largest record lately added or looked at
}

// sampleEvery is the number of bytes of records for which one sample is taken. Few of the
// looks may go to the disk: the more is live, the rarer they are.
func (s *sampler) sampleEvery() int64 {
	live := int64(s.budget.measured.Load().Live)
	return min(max(live/policy.SampleFraction, policy.SampleLeastBytes), policy.SampleMostBytes)
}

// sampleRecord adds what a record replaces to the active memtable's estimates. Call it before the
// record itself is added to the memtable.
func (s *sampler) sampleRecord(r *entry.Record, every int64) {
	weight := int64(r.Size)
	s.followSize(weight)
	switch r.Kind {
	case entry.Delete:
		// A delete's record is tiny, so weigh it as 1 KB, or 1/128 of the largest recent value, or
		// it would rarely be sampled.
		weight += max(policy.SampleDeleteBytes, s.largest/policy.SampleLargest)
	case entry.RangeDelete:
		s.lookAtRange(r)
	}
	// Each look may go to the disk. A sample that has looked at many versions therefore lets as
	// many others be left out.
	if s.unsampled += weight; s.unsampled >= every*s.looks {
		stands := s.unsampled / every * every
		s.unsampled -= stands
		s.sampleReplaced(r, float64(stands)/float64(weight))
	}
}

// followSize keeps the size of the largest record. What is much larger than those that follow is
// forgotten in time: by half while some 700,000 of them come.
func (s *sampler) followSize(size int64) { s.largest = max(size, s.largest-s.largest>>20) }

// replacedBy is what the run of a flushed memtable has replaced in older runs; nil = unknown.
func replacedBy(m *view.Table) []layout.Superseded {
	if m.Replayed {
		return nil
	}
	return m.Replaced.List()
}

// retentionOf returns what the keyspace of key retains, and the account's line for what was
// replaced there by a version.
func (s *sampler) retentionOf(key []byte, by entry.Version) (r policy.Retention, line layout.Superseded) {
	line = layout.Superseded{Keyspace: entry.DefaultKeyspace, Version: by}
	if id, ok := entry.KeyspaceOf(key); ok {
		line.Keyspace = id
	}
	r, _ = s.cfg.Policy.RetentionOf(s.views.Current().Layout, line.Keyspace)
	if r.Manual {
		r.Age = math.MaxInt64 // nobody knows when it is given up
	}
	if r.Age < policy.ShortAge {
		r.Age, line.Version = 0, 0
	}
	return r, line
}

// sampleReplaced finds what a record replaces, and counts it `times` times, as the sample stands
// for other records, too. In a keyspace that keeps N versions, a set replaces the N-th older one,
// and anything else all of them. Beyond policy.SampleMostLooks versions it doesn't look: what is
// replaced there is little beside what is kept. What can't be read is not counted: a reader of it
// gets the error.
func (s *sampler) sampleReplaced(r *entry.Record, times float64) {
	h := s.views.Current().Active().Hash(r.Key)
	retention, line := s.retentionOf(r.Key, r.Version)
	before := entry.Version(max(r.Version, 1) - 1)
	for s.looks = 1; ; s.looks++ {
		var e entry.Entry
		to, found := s.findReplaced(r.Key, h, before, &e)
		// What is below a delete was counted for that delete.
		if !found || e.Kind == entry.Delete {
			return
		}
		last := s.looks >= int64(retention.Versions)
		if last || r.Kind != entry.Set {
			s.countReplaced(to, line, &e, times, retention.Age)
		}
		if last || e.Kind == entry.SetLatest || s.looks == policy.SampleMostLooks {
			return
		}
		if before = e.Version - 1; r.Kind == entry.Set && retention.Age > 0 {
			line.Version = e.Version
		}
	}
}

// findReplaced finds the newest version of a key up to before, and where it counts as replaced.
func (s *sampler) findReplaced(key []byte, h uint64, before entry.Version, e *entry.Entry) (to *view.Replaced, found bool) {
	active := s.views.Current().Active()
	if active.Get(key, h, before, e) {
		return &active.Outdated, true
	}
	found, err := s.leader.GetAt(key, h, before, e)
	return &active.Replaced, found && err == nil
}

// countReplaced counts e `times` times as replaced.
func (s *sampler) countReplaced(to *view.Replaced, line layout.Superseded, e *entry.Entry, times float64, age time.Duration) {
	if to == &s.views.Current().Active().Replaced { // its own comes to no run
		line.Entries = uint64(math.Round(times))
		line.Bytes = uint64(float64(len(e.Key)+len(e.Value)) * times)
	}
	if e.Separated {
		s.followSize(int64(e.Handle.Length))
		line.Separated = uint64(float64(e.Handle.Length) * times)
	}
	to.Add(line, age)
	if age <= 0 {
		s.budget.older.Add(int64(line.Separated))
	}
}

// lookAtRange counts what a range delete hides in runs, keys and inline values, too. It leaves out
// what older range deletes cover, which was counted for those. What it hides in the memtable only a
// flush can tell: it is taken to be a part of all, so that the flush comes.
func (s *sampler) lookAtRange(r *entry.Record) {
	n := s.leader.UnhiddenBytes(r.Key, r.Value, r.Version-1)
	retention, line := s.retentionOf(r.Key, r.Version)
	line.Separated = uint64(n)
	active := s.views.Current().Active()
	active.Replaced.Add(line, retention.Age)
	if retention.Age <= 0 {
		active.Ranged.Store(active.SeparatedBytes.Load() / policy.RangedFraction)
		s.budget.older.Add(n)
	}
}
