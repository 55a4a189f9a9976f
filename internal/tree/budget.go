package tree

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// garbageBudget follows how the store's garbage compares with its budget, from one
// View to the next and, between them, with what is written. What new entries
// replace is known for sure only once they are compacted with the old ones, which
// may be long after; until then it is the sampler's estimate.
type garbageBudget struct {
	views        *view.Set
	damaged      *damaged
	policy       policy.Options
	segmentBytes int64 // bytes at which a segment ends, at most

	measured atomic.Pointer[measure]
	older    atomic.Int64 // bytes of older values that writes have replaced since Open, estimated
	copying  atomic.Int64 // bytes that a collection under way has a second time
}

// measure is what policy says of a View, and garbageBudget.older by then.
type measure struct {
	policy.Garbage
	older int64
}

// measure brings the budget up to date with a View that is about to be installed.
func (b *garbageBudget) measure(v *view.View) {
	older := b.older.Load()
	b.measured.Store(&measure{policy.Measure(v.Layout, stateOf(v, b.damaged), b.policy), older})
}

// fill is the share of the budget that garbage takes now.
func (b *garbageBudget) fill() float64 {
	m := b.measured.Load()
	return m.Fill(uint64(max(b.older.Load()-m.older, 0) + b.copying.Load()))
}

// throttle says how much writers must be slowed so that the budget lasts: 1 is one
// full delay; 0 if nothing that could be waited for would help.
func (b *garbageBudget) throttle() float64 {
	if m := b.measured.Load(); !m.Reducible {
		return 0
	}
	return policy.Throttle(b.fill())
}

// calm reports whether garbage is well below what writers are throttled for.
func (b *garbageBudget) calm() bool {
	return policy.CollectionPace(b.fill()) == 0 || !b.measured.Load().Reducible
}

// segmentLimit is the length at which a segment that begins now ends. It follows
// what is live in segments, unless values are mostly in runs.
func (b *garbageBudget) segmentLimit() int64 {
	v := b.views.Current()
	live := max(b.measured.Load().Live, uint64(v.Active().SeparatedBytes.Load()))
	inline := uint64(v.Active().InlineBytes.Load())
	for _, r := range v.Layout.Runs() {
		inline += r.FileBytes()
	}
	if inline > live {
		return b.segmentBytes
	}
	return policy.SegmentBytes(live, b.segmentBytes)
}

// affords reports whether a file of this size may wait to be used again.
func (b *garbageBudget) affords(size int64) bool {
	return !b.views.Closed() && b.fill() < policy.SpareBudgetShare && size <= b.segmentLimit()
}
