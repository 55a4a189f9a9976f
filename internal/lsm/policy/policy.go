// Package policy decides which background work is worth doing. It does no IO
// and knows no clock: the same layout and state always give the same plan.
//
// Runs are kept by lazy leveling (Dostoevsky: Dayan and Idreos, SIGMOD 2018,
// sec. 4.1) with two levels: some upper runs, each written by a flush or
// compacted from such, over one base run. Upper runs are compacted among
// themselves while the base is much bigger, and into the base when they have
// grown to its size, so that an entry is rewritten seldom. An idle store is
// compacted into one run, unless that costs far more than it is worth.
//
// Garbage has a budget. Segments are collected before it is used up, those with
// most garbage and the oldest first, and more of them in an idle store. Collected
// segments leave forwarding tables behind. Before there are too many of these, runs are
// compacted for no other reason.
//
// Values lie in the order of their arrival. Once scans have jumped among them enough, an idle
// store puts them in key order (clustering).
//
// Files under an old data key are rewritten last, and only if a user has asked for it.
//
// Each file is one decision, and tuning.go has all numbers that they use.
package policy

import (
	"cmp"

	"github.com/brockdb/brock/internal/version/layout"
)

// Decide chooses what to do.
func Decide(l *layout.Layout, s State, o Options) Plan {
	// The flush of a memtable adds its run and its journal segments to the layout together. So a
	// segment of the layout that no run refers to is not needed.
	p := Plan{Flush: s.Sealed > 0, DropSegments: l.Unreferenced()}
	v := newBalance(l, s, o.withDefaults())
	if !s.Collecting {
		p.Collect = cmp.Or(v.planCollection(), v.planOldSegments())
	}
	if !s.Compacting {
		p.Compaction = v.planCompaction(p.Collect != nil)
	}
	return p
}

// planCompaction chooses the most urgent compaction; nil if none is worth it.
func (v *balance) planCompaction(collects bool) *Compaction {
	if c := v.planExpiry(); c != nil && v.hasDiskSpace(c) {
		return c
	}
	c := cmp.Or(v.planLeveling(), v.planDropping())
	// These move, or rewrite handles to, what a collection would change: they wait for it. A
	// clustering removes forwarding tables, too.
	if c == nil && !collects {
		c = cmp.Or(v.planClustering(), v.planPointers(), v.planOldRun())
	}
	if c != nil && !v.hasDiskSpace(c) {
		return v.planSmaller()
	}
	return c
}
