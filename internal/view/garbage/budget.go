// Package garbage knows or estimates the store's garbage: what writes replace, and what
// dropped keyspaces leave. It compares the garbage with the budget.
package garbage

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// Budget compares the store's garbage with the garbage budget. It is measured for each View;
// between two Views it follows what is written. What new entries replace is known exactly
// only once a compaction has met the new and the old entries. Until then it is the Sampler's
// estimate.
type Budget struct {
	views        *view.Set
	damaged      *Damaged
	policy       policy.Options
	segmentBytes int64         // bytes at which a segment ends, at most
	now          func() uint64 // in Unix milliseconds

	measured atomic.Pointer[measure]
	older    atomic.Int64 // bytes of older values that writes have replaced since Open, estimated

	// Copying is the number of bytes that a running collection copies: they are on disk twice
	// until it ends.
	Copying atomic.Int64
}

// NewBudget returns a Budget that has measured nothing yet.
func NewBudget(views *view.Set, d *Damaged, o policy.Options, segmentBytes int64, now func() uint64) *Budget {
	return &Budget{views: views, damaged: d, policy: o, segmentBytes: segmentBytes, now: now}
}

// measure is the garbage of a View, and the value of Budget.older when it was measured.
type measure struct {
	policy.Garbage
	older int64
}

// Measure brings the budget up to date with a View that is about to be installed.
func (b *Budget) Measure(v *view.View) {
	older := b.older.Load()
	b.measured.Store(&measure{policy.Measure(v.Layout, StateOf(v, b.damaged, &b.policy, b.now()), b.policy), older})
}

// Set makes g the store's current garbage.
func (b *Budget) Set(g policy.Garbage) { b.measured.Store(&measure{g, b.older.Load()}) }

// Older is how many bytes of older values writes have replaced since Open, estimated.
func (b *Budget) Older() int64 { return b.older.Load() }

// SealAfter is how many bytes of older values a memtable may hide before it is sealed.
func (b *Budget) SealAfter() uint64 { return b.measured.Load().SealAfter() }

// Fill is the share of the budget that garbage takes now.
func (b *Budget) Fill() float64 {
	m := b.measured.Load()
	return m.Fill(uint64(max(b.older.Load()-m.older, 0) + b.Copying.Load()))
}

// Throttle says how much writers must be throttled so that the budget lasts: 1 is one
// full delay; 0 if nothing that could be waited for would help.
func (b *Budget) Throttle() float64 {
	if m := b.measured.Load(); !m.Reducible {
		return 0
	}
	return policy.Throttle(b.Fill())
}

// Calm reports whether garbage is well below what writers are throttled for.
func (b *Budget) Calm() bool {
	return policy.CollectionPace(b.Fill()) == 0 || !b.measured.Load().Reducible
}

// SegmentLimit is the length at which a segment that begins now ends. It follows
// what is live in segments, unless values are mostly in runs.
func (b *Budget) SegmentLimit() int64 {
	v := b.views.Current()
	// In a young store nearly all that is live is in the active memtable's journal.
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
