package view

import (
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/tombstone"
)

// Run is an open run. What is estimated of it is set before it is installed,
// but for Dropped.
type Run struct {
	*run.Reader
	shared
	ID      layout.RunID
	Order   uint64       // age: greater is newer
	Dropped atomic.Int64 // bytes of keyspaces that were dropped since it was made, about

	Hidden int64 // bytes of separated values of older runs that it replaces, estimated; or Unknown
	Stale  int64 // entries of older runs that it replaces, as far as is known, estimated
	Ranged int64 // bytes of older runs that its range tombstones hide, estimated
}

// Unknown stands for an estimate that nobody could make.
const Unknown = int64(-1)

// NewRun makes r part of a View. The function release is called once no View
// holds the run any more: it closes r and, if the run was retired, removes its files.
func NewRun(r *run.Reader, id layout.RunID, order uint64, release func(retired bool)) *Run {
	s := &Run{Reader: r, ID: id, Order: order, Hidden: Unknown}
	s.release = release
	return s
}

// Warm reads what the first reader would otherwise wait for.
func (r *Run) Warm() (err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	return r.Reader.Warm()
}

// BytesIn estimates the bytes that [lo, hi) has in the run, separated values
// included; it is 0 if the run can't be read.
func (r *Run) BytesIn(lo, hi []byte) (n int64) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	_, size, separated := r.Size(lo, hi)
	return int64(size + separated)
}

// TombstonesOf are the range tombstones of runs, for one goroutine that writes them to
// another run, until it calls done.
func TombstonesOf(runs []*Run) (sources []tombstone.Source, done func()) {
	var copies []run.Tombstones
	for _, r := range runs {
		if t := r.Tombstones(); !t.Empty() {
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

// OlderThan describes the runs behind the last of some that follow each other; all runs
// if these are none. The newest run comes first.
func (v *View) OlderThan(runs []*Run) (older []*meta.Run) {
	rest := v.Runs
	if len(runs) > 0 {
		rest = rest[slices.Index(rest, runs[len(runs)-1])+1:]
	}
	for _, r := range rest {
		older = append(older, r.Meta())
	}
	return older
}

// mostStretches bounds how many parts of a range are looked at for an estimate.
const mostStretches = 64

// WeighRanges estimates what the range tombstones of r hide in older runs.
func (r *Run) WeighRanges(older []*Run) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	r.Tombstones().Some(mostStretches, func(t tombstone.Tombstone, each int64) {
		for _, o := range older {
			r.Ranged += o.BytesIn(t.Lo, t.Hi) * each
		}
	})
}
