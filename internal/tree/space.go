package tree

import (
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// space follows how the store's garbage compares with its budget, from one View
// to the next and, between them, with what is written. What new entries replace
// is known for sure only once they are merged with the old ones, which may be
// long after; so the commit leader looks at a sample of them (sample).
type space struct {
	measured atomic.Pointer[measure]
	older    atomic.Int64 // bytes of older values that writes have replaced since Open, estimated
	copying  atomic.Int64 // bytes that a collection which goes on has a second time

	unsampled int64 // bytes of records since the last one that was looked at; the leader's
}

// measure is what policy says of a View, and space.older by then.
type measure struct {
	policy.Garbage
	older int64
}

// fill is the share of the budget that garbage takes now.
func (s *space) fill() float64 {
	m := s.measured.Load()
	return m.Fill(uint64(max(s.older.Load()-m.older, 0) + s.copying.Load()))
}

// brake says how much writers must be slowed so that the budget lasts; 0 if
// nothing that could be waited for would help.
func (s *space) brake() float64 {
	if m := s.measured.Load(); !m.Reducible {
		return 0
	}
	return policy.Throttle(s.fill())
}

// calm reports whether garbage is well below what writers are slowed for.
func (s *space) calm() bool {
	return policy.CollectionPace(s.fill()) == 0 || !s.measured.Load().Reducible
}

// measure brings space up to date with a View that is about to be installed.
func (t *Tree) measure(v *view.View) {
	older := t.space.older.Load()
	t.space.measured.Store(&measure{policy.Measure(v.Layout, t.stateOf(v), t.cfg.Policy), older})
}

// state is what policy must know of v beside its layout, to make a plan.
func (t *Tree) state(v *view.View) policy.State {
	s := t.stateOf(v)
	s.DiskSpace, s.Dropped, s.Now = t.room(), t.dropped(), t.unixMilli()
	return s
}

// stateOf is what follows from v and from what was found to be damaged.
func (t *Tree) stateOf(v *view.View) policy.State {
	s := policy.State{Sealed: len(v.Tables) - 1, Damaged: t.damagedSegments(), Hidden: make(map[layout.RunID]uint64)}
	for _, m := range v.Tables {
		s.Memtables.Values += uint64(m.SeparatedBytes.Load())
		s.Memtables.Older += uint64(m.Replaced.Load() + m.Outdated.Load())
	}
	for _, r := range v.Runs {
		if r.Hidden >= 0 {
			s.Hidden[r.ID] = uint64(r.Hidden)
		}
		if r.Tombstones() != nil {
			if s.Ranged == nil {
				s.Ranged = make(map[layout.RunID]uint64)
			}
			s.Ranged[r.ID] = uint64(r.Ranged)
		}
	}
	return s
}

// segmentLimit is the length at which a segment that begins now ends. It follows
// what is live in segments, unless values are mostly in runs.
func (t *Tree) segmentLimit() int64 {
	v := t.views.Current()
	live := max(t.space.measured.Load().Live, uint64(v.Active().SeparatedBytes.Load()))
	inline := uint64(v.Active().InlineBytes.Load())
	for _, r := range v.Layout.Runs() {
		inline += r.FileBytes()
	}
	if inline > live {
		return t.cfg.SegmentBytes
	}
	return policy.SegmentBytes(live, t.cfg.SegmentBytes)
}

// spare reports whether there is room for a file of this size that waits to be
// used again.
func (t *Tree) spare(size int64) bool {
	return !t.views.Closed() && t.space.fill() < spareFill && size <= t.segmentLimit()
}

const (
	spareFill   = 0.5      // share of the budget
	sampleLeast = 32 << 10 // bytes of records that one look stands for:
	sampleMost  = 1 << 20  //
	sampleShare = 2048     // a share of what is live, so that few looks go to disk
	deleteBytes = 1 << 10  // a delete counts as a record of so many bytes more
)

// sampleEvery is the number of bytes of records for which one sample is taken.
func (t *Tree) sampleEvery() int64 {
	return min(max(int64(t.space.measured.Load().Live/sampleShare), sampleLeast), sampleMost)
}

// sample adds to the active memtable's estimates what a record replaces, before it
// is added to it. Only the commit leader calls it.
func (t *Tree) sample(r *entry.Record, every int64) {
	weight := int64(r.Size)
	switch r.Kind {
	case entry.Delete:
		weight += deleteBytes
	case entry.RangeDelete:
		t.lookAtRange(r)
	}
	if t.space.unsampled += weight; t.space.unsampled >= every {
		stands := t.space.unsampled / every * every
		t.space.unsampled -= stands
		t.look(r, float64(stands)/float64(weight))
	}
}

// retains reports whether older versions of a key are kept for some time: what
// replaces them makes no garbage.
func (t *Tree) retains(key []byte) bool {
	id, ok := entry.KeyspaceOf(key)
	if k := t.layout().Keyspace(id); ok && k != nil {
		return k.Options.Versions > 1 || k.Options.Age > 0
	}
	return t.cfg.Retention.Versions > 1 || t.cfg.Retention.Age > 0
}

// retainsAny reports whether older versions of any key are kept for some time.
func (t *Tree) retainsAny() bool {
	return t.retains(entry.AppendKeyspace(nil, entry.DefaultKeyspace)) ||
		slices.ContainsFunc(t.layout().Keyspaces(), func(k layout.Keyspace) bool { return k.Options.Versions > 1 || k.Options.Age > 0 })
}

// hiddenBy is how many bytes of older values the run of a flushed memtable hides.
func (t *Tree) hiddenBy(m *view.Table) int64 {
	if m.Replayed || t.retainsAny() {
		return view.Unknown
	}
	return m.Replaced.Load()
}

// look finds what a record replaces, and counts it so many times. What can't be
// read is not counted: whoever asks for it will be told.
func (t *Tree) look(r *entry.Record, times float64) {
	if t.retains(r.Key) {
		return
	}
	h := hash.Sum(t.cfg.Seed, r.Key)
	active, before := t.views.Current().Active(), entry.Version(max(r.Version, 1)-1)
	var e entry.Entry
	to := &active.Outdated
	if !active.Get(r.Key, h, before, &e) {
		to = &active.Replaced
		if !t.lookBelow(r.Key, h, before, &e) {
			return
		}
	}
	if !e.Separated || e.Kind == entry.Delete {
		return
	}
	n := int64(float64(e.Handle.Length) * times)
	to.Add(n)
	t.space.older.Add(n)
}

// lookAtRange counts what a range delete hides in runs. What tombstones cover
// already was counted for them.
func (t *Tree) lookAtRange(r *entry.Record) {
	if t.retains(r.Key) {
		return
	}
	t.leader.Enter()
	n := t.leader.Unhidden(r.Key, r.Value, r.Version-1)
	t.leader.Leave()
	t.views.Current().Active().Replaced.Add(n)
	t.space.older.Add(n)
}

func (t *Tree) lookBelow(key []byte, h uint64, at entry.Version, e *entry.Entry) bool {
	t.leader.Enter()
	defer t.leader.Leave()
	found, err := t.leader.GetAt(key, h, at, e)
	return found && err == nil
}
