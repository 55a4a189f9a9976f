package engine

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// budget compares the store's garbage with the garbage budget. It is measured for each View;
// between two Views it follows what is written. What new entries replace is known exactly
// only once a compaction has met the new and the old entries. Until then it is the sampler's
// estimate.
type budget struct {
	*state

	measured atomic.Pointer[measured]
	older    atomic.Int64 // bytes of older values that writes have replaced since Open, estimated

	// copying is the number of bytes that a running collection copies: they are on disk twice
	// until it ends.
	copying atomic.Int64
}

// policyState returns the part of policy.State that follows from v, from the damage that was found
// and from the time.
func (st *state) policyState(v *view.View) policy.State {
	o, now := &st.cfg.Policy, st.cfg.unixMilli()
	s := policy.State{Sealed: len(v.Tables) - 1, Now: now, Damaged: st.damaged.list()}
	s.Hidden, s.Ranged = make(map[layout.RunID]uint64), make(map[layout.RunID]uint64)
	for _, m := range v.Tables {
		s.Memtables.Values += uint64(m.SeparatedBytes.Load())
		for _, r := range []*view.Replaced{&m.Replaced, &m.Outdated} {
			s.Memtables.Older += o.Dead(v.Layout, r.List(), now).Separated
		}
	}
	for _, r := range v.Runs {
		if r.Replaced != nil {
			s.Hidden[r.ID] = o.Dead(v.Layout, r.Replaced, now).Separated
		}
		if !r.RangeDeletes().Empty() {
			s.Ranged[r.ID] = uint64(r.Ranged)
		}
	}
	return s
}

// measured is the garbage of a View, and the value of budget.older when it was measured.
type measured struct {
	policy.Garbage
	older int64
}

// measureView brings the budget up to date with a View that is about to be installed.
func (b *budget) measureView(v *view.View) {
	// Load before measuring. What is added in between counts twice until the next View, which is
	// better than not at all: garbage would exceed its budget.
	older := b.older.Load()
	b.measured.Store(&measured{policy.Measure(v.Layout, b.policyState(v), b.cfg.Policy), older})
}

// fillShare is the share of the budget that garbage takes now.
func (b *budget) fillShare() float64 {
	// The measure holds for one View. What writes have replaced since comes on top of it.
	m := b.measured.Load()
	return m.Fill(uint64(max(b.older.Load()-m.older, 0) + b.copying.Load()))
}

// throttleDelays says how much writers must be throttled so that the budget lasts: 1 is one
// full delay; 0 if nothing that could be waited for would help.
func (b *budget) throttleDelays() float64 {
	// To slow writers would help nobody if no work can make garbage less.
	if m := b.measured.Load(); !m.Reducible {
		return 0
	}
	return policy.Throttle(b.fillShare())
}

// isCalm reports whether garbage is well below what writers are throttled for.
func (b *budget) isCalm() bool {
	return policy.CollectionPace(b.fillShare()) == 0 || !b.measured.Load().Reducible
}

// segmentLimit is the length at which a segment that begins now ends. It follows
// what is live in segments, unless values are mostly in runs.
func (b *budget) segmentLimit() int64 {
	v := b.views.Current()
	// In a young store nearly all that is live is in the active memtable's journal.
	live := max(b.measured.Load().Live, uint64(v.Active().SeparatedBytes.Load()))
	inline := uint64(v.Active().InlineBytes.Load())
	for _, r := range v.Layout.Runs() {
		inline += r.FileBytes()
	}
	if inline > live {
		return b.cfg.SegmentBytes
	}
	return policy.SegmentBytes(live, b.cfg.SegmentBytes)
}
