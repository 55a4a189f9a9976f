package view

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// Run is an open run. Its estimates are set before it is installed, and don't change
// later; only Dropped grows.
type Run struct {
	*run.Reader
	shared
	ID      layout.RunID // its number in the Layout
	Dropped atomic.Int64 // estimate: its bytes in keyspaces that were dropped since it was made

	Replaced []layout.Superseded // estimate: what its entries have replaced; nil: unknown
	Ranged   int64               // estimate: bytes in older runs that its range deletes hide
}

// lacksNewer reports whether the run has nothing newer than since; 0 asks for all versions.
func (r *Run) lacksNewer(since entry.Version) bool { return since > 0 && r.MaxVersion() <= since }

// WarmUp reads and verifies a small run, so that its first reader finds it in memory. It
// does nothing for a run above 256 KiB.
func (r *Run) WarmUp() (err error) {
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	return r.Reader.Warm()
}

// EstimateBytes estimates the bytes that [lo, hi) has in the run, separated values
// included; it is 0 if the run can't be read.
func (r *Run) EstimateBytes(lo, hi []byte) (n int64) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	_, size, separated := r.Size(lo, hi, false)
	return int64(size + separated)
}

// RangeDeletesOf returns the range deletes of runs, for one goroutine that copies them to another
// run. They are verified in the copies that it gets. It calls done at the end.
func RangeDeletesOf(runs []*Run) (sources []rangedel.Source, done func()) {
	var copies []run.RangeDeletes
	for _, r := range runs {
		if t := r.RangeDeletes(); !t.Empty() {
			copies = append(copies, t.Copier())
			sources = append(sources, copies[len(copies)-1])
		}
	}
	return sources, func() {
		for _, t := range copies {
			t.Close()
		}
	}
}

// ListOlder describes the runs of v that are older than the last of runs, newest first.
// Without runs it describes all.
func (v *View) ListOlder(runs []*Run) (older []*layout.RunMeta) {
	for _, r := range v.olderRuns(runs) {
		older = append(older, r.Meta())
	}
	return older
}

// FindConsecutive returns the runs with these ids, which must follow each other in age. bottom says
// that no run is older.
func (v *View) FindConsecutive(ids []layout.RunID) (inputs []*Run, bottom bool, err error) {
	isOther := func(r *Run) bool { return !slices.Contains(ids, r.ID) }
	at := slices.IndexFunc(v.Runs, func(r *Run) bool { return !isOther(r) })
	end := at + len(ids)
	// A run between two inputs has versions between theirs, and would end up above or below all of
	// them.
	if at < 0 || end > len(v.Runs) || slices.ContainsFunc(v.Runs[at:end], isOther) {
		return nil, false, fmt.Errorf("runs %v are not there, or do not follow each other", ids)
	}
	return slices.Clone(v.Runs[at:end]), end == len(v.Runs), nil
}

// olderRuns returns the runs that are older than runs: all if there are none.
func (v *View) olderRuns(runs []*Run) []*Run {
	if len(runs) == 0 {
		return v.Runs
	}
	return v.Runs[slices.Index(v.Runs, runs[len(runs)-1])+1:]
}

// NewCopier walks the entries of runs, in order. It reads and verifies copies of their pages, so it
// is for work that writes the entries again.
func NewCopier(runs []*Run) iterator.Iterator {
	sources := make([]iterator.Iterator, len(runs))
	for i, r := range runs {
		sources[i] = r.Copier()
	}
	return iterator.Merge(sources)
}

// mostStretches is how many parts of a range an estimate looks at, at most.
const mostStretches = 64

// WeighRanges sets Ranged: it estimates the bytes that the range deletes of r hide in the older
// runs. It looks at up to 64 of them, spread evenly.
func (r *Run) WeighRanges(older []*Run) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	r.RangeDeletes().Some(mostStretches, func(t rangedel.Delete, each int64) {
		for _, o := range older {
			r.Ranged += o.EstimateBytes(t.Lo, t.Hi) * each
		}
	})
}
