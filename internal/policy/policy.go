// Package policy decides which background work is worth doing. It does no IO
// and knows no clock: the same layout and state always give the same plan.
//
// Runs are kept by lazy leveling: some upper runs, each as a flush left it or
// merged from such, over one base run. Upper runs are merged among themselves
// while the base is much bigger, and into the base when they have grown to its
// size, so that an entry is rewritten seldom; when the store is idle everything
// is merged into one run, if that is not far more work than it is worth.
//
// Garbage has a budget (space.go), and segments are collected before it is used
// up, the deadest and oldest first, and more of them in an idle store. Collected segments leave remaps behind, of which there are few:
// before there are too many, runs are merged for no other reason.
//
// Values lie in the order in which they arrived until scans have jumped among
// them for so long that an idle store sorts them.
package policy

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
)

// Options bounds reads, writes and space against each other. The zero value is good.
type Options struct {
	// UpperRuns is how many upper runs there may be before some are merged;
	// 0 = 6, at least 2. Each costs a get a filter probe.
	UpperRuns int
	// BaseShare is the weight of the upper runs, in percent of the base's size,
	// from which they are merged into it; 0 = 100. Less keeps less stale data
	// and writes more.
	BaseShare int
	// GarbageShare is how much garbage there may be while clients write, in
	// percent of what is live; 0 = 50. Less takes less space and moves what is
	// live more often. An idle store goes further by itself.
	GarbageShare int
	// SegmentBytes bounds the live data that one collection moves; 0 = 256 MB.
	SegmentBytes uint64
	// MovedRecords bounds the records that one collection of several segments
	// moves; 0 = 2 million.
	MovedRecords uint64
	// NoClustering has values stay in the order of their arrival, whatever is scanned.
	NoClustering bool
}

func (o Options) withDefaults() Options {
	if o.UpperRuns == 0 {
		o.UpperRuns = 6
	}
	o.UpperRuns = max(o.UpperRuns, 2)
	if o.BaseShare <= 0 {
		o.BaseShare = 100
	}
	if o.GarbageShare <= 0 {
		o.GarbageShare = 50
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 256 << 20
	}
	if o.MovedRecords == 0 {
		o.MovedRecords = 2 << 20
	}
	return o
}

// State is what a layout doesn't tell.
type State struct {
	Sealed      int             // memtables that wait for their flush
	Compacting  bool            // a merge is going on
	Collecting  bool            // a collection is going on
	Idle        bool            // nothing was written for a while
	Reclaim     bool            // space is asked for: as Idle, and whatever it costs
	Now         uint64          // Unix milliseconds, for what expires; 0 = it does not count
	DiskSpace   int64           // bytes that work may write; 0 = as many as it likes
	JumpedBytes uint64          // bytes of unsorted values that scans had to jump to, and that no clustering was done for
	Damaged     []entry.FileNum // segments whose live records cannot all be read
	// Dropped is how many bytes of keys and values, inline and separated, are in
	// runs for keyspaces that were dropped, about; runs without are not in it.
	Dropped map[manifest.RunID]uint64

	Memtables Replaced                  // of all memtables together
	Hidden    map[manifest.RunID]uint64 // Replaced.Older of the runs of which it is known
	Ranged    map[manifest.RunID]uint64 // bytes of older runs that the range tombstones of a run hide, about; where it is missing, perhaps all
}

// Plan is what is worth doing now; the zero value is nothing. Its parts may be
// done in any order and at the same time.
type Plan struct {
	Flush        bool        // flush the oldest sealed memtable
	Compaction   *Compaction // nil = none
	Collect      *Collection
	DropSegments []entry.FileNum
}

// Compaction replaces runs that follow each other in age by one.
type Compaction struct {
	Runs    []manifest.RunID // newest first
	Into    manifest.Tier
	Reason  string
	Cluster []entry.FileNum // segments whose values move, in the order of keys, to new ones; ascending
	Price   uint64          // for sorting them: by how much State.JumpedBytes goes down
}

// Decide chooses what to do.
func Decide(l *manifest.Layout, s State, o Options) Plan {
	// Journal segments of memtables are not in a layout before their flush,
	// which adds segment and run together: what no run needs, nobody does.
	p := Plan{Flush: s.Sealed > 0, DropSegments: l.Unreferenced()}
	o = o.withDefaults()
	w := waste(l, s, o)
	if !s.Collecting {
		p.Collect = w.collection()
	}
	if !s.Compacting {
		p.Compaction = w.compaction()
		if p.Compaction == nil {
			p.Compaction = dropping(l, s)
		}
		if p.Compaction == nil && p.Collect == nil {
			p.Compaction = w.clustering() // which heals too
		}
		if p.Compaction == nil && p.Collect == nil {
			p.Compaction = w.healing()
		}
		if p.Compaction != nil && !s.fits(l, p.Compaction) {
			p.Compaction = smaller(l, s)
		}
	}
	return p
}

// KeepSegment says what becomes of a journal segment whose memtable is flushed:
// true if it stays as a value segment, because at least half of it are live
// values; false if they are copied, in key order, to a value segment. Live and
// total are bytes of the file.
func KeepSegment(live, total uint64) bool {
	const tiny = 4 << 20
	return total >= tiny && live >= total-live
}
