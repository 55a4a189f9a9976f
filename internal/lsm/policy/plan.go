package policy

import (
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// Options trades reads, writes and disk space against each other. The zero value is good.
type Options struct {
	// GarbageShare is how much garbage there may be while clients write, in
	// percent of what is live; 0 = 50. Less takes less space and moves live data
	// more often. An idle store goes further by itself.
	GarbageShare int
	// SegmentBytes bounds the live data that one collection moves; 0 = 256 MB.
	SegmentBytes uint64
	// Memory is how many bytes all parts of the store may take; 0 = no bound. It bounds the records
	// that one collection of several segments moves: where they went is kept until it ends.
	Memory int64
	// Retention is what the default keyspace retains; the layout says what others do.
	Retention
}

func (o Options) withDefaults() Options {
	if o.GarbageShare <= 0 {
		o.GarbageShare = defaultGarbageShare
	}
	o.SegmentBytes = cmp.Or(o.SegmentBytes, defaultSegmentBytes)
	return o
}

// movedRecords is how many records one collection of several segments moves, at most.
func (o *Options) movedRecords() uint64 {
	if o.Memory == 0 {
		return mostMovedRecords
	}
	return min(uint64(o.Memory/bytesPerMove), mostMovedRecords)
}

// State is what Decide must know beside the layout.
type State struct {
	Sealed      int             // memtables that wait for their flush
	Compacting  bool            // a compaction is running
	Collecting  bool            // a collection is running
	Idle        bool            // nothing was written for a while
	Full        bool            // sets are refused, as the disk is full
	Reclaim     bool            // the user asks for disk space: do what Idle does, at any cost
	Now         uint64          // Unix milliseconds, for expiry; 0 = nothing expires
	DiskSpace   int64           // bytes that work may write; 0 = no limit
	JumpedBytes uint64          // jumped bytes of scans since the last clustering
	Damaged     []entry.FileNum // segments and files of runs that can't be read as a whole
	// Dropped estimates how many bytes of keys and values, inline and separated,
	// each run holds for dropped keyspaces; a run without any is not in it.
	Dropped map[layout.RunID]uint64

	Memtables Replaced                // of all memtables together
	Hidden    map[layout.RunID]uint64 // Replaced.Older of the runs for which it is known
	Ranged    map[layout.RunID]uint64 // bytes of older runs that a run's range deletes hide, about; missing = perhaps all
}

// atRest reports whether no client writes, or the user asks for disk space.
func (s State) atRest() bool { return s.Idle || s.Reclaim }

// Replaced tells how much garbage the entries of memtables or of a run make elsewhere.
type Replaced struct {
	Values uint64 // bytes of their own separated values
	Older  uint64 // bytes of separated values that they, or their range deletes, make garbage
}

// Plan is the work that is worth doing now; the zero value is no work. Its parts may be done
// in any order and at the same time.
type Plan struct {
	Flush        bool        // flush the oldest sealed memtable
	Compaction   *Compaction // nil = none
	Collect      *Collection // nil = none
	DropSegments []entry.FileNum
}

// Compaction replaces runs that follow each other in age by one.
type Compaction struct {
	Runs    []layout.RunID // newest first
	Reason  string
	Cluster []entry.FileNum // segments whose values move to new ones, in key order; ascending
	Price   uint64          // of the clustering: by how much State.JumpedBytes goes down
	Rekey   bool            // one run is rewritten only to change its data key; this can wait
}

// newCompaction returns the compaction of runs.
func newCompaction(runs []*layout.Run, reason string) *Compaction {
	c := &Compaction{Reason: reason}
	for _, r := range runs {
		c.Runs = append(c.Runs, r.ID)
	}
	return c
}

// findRow returns the runs from the newest to the oldest for which is says true, with those
// between: a compaction takes runs that follow each other. Without any, end is 0.
func findRow(runs []*layout.Run, is func(*layout.Run) bool) (first, end int) {
	for i, r := range runs {
		if !is(r) {
			continue
		}
		if end == 0 {
			first = i
		}
		end = i + 1
	}
	return first, end
}

// Collection moves what is live in some segments to a new one.
type Collection struct {
	Victims []entry.FileNum // ascending
	Reason  string
	Bytes   uint64 // of the files: what is live and moves
}
