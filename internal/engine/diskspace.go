package engine

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// diskSpace decides who may use the bytes that the disk and Config.DiskLimit leave.
//
// A part of them, the reserve, is for deletes and for work that frees disk space: when no more
// than the reserve is left, sets are refused. The reserve is not a file, only a number of bytes
// that stay free: enough to flush what is in memory, to collect one segment, and to compact the
// runs after half of their entries were deleted.
//
// If the disk is full all the same, work that finds no space leaves everything as it was, and is
// tried again later. Only then there is a timer: it looks a few times a second for free space.
type diskSpace struct {
	*state

	onlyReserve    atomic.Bool  // no more than the reserve is left: sets are refused
	noJournalSpace atomic.Bool  // the journal found no disk space, and has appended nothing since
	credit         atomic.Int64 // bytes to be written until it is measured again
	promised       atomic.Int64 // bytes that compactions and collections under way will write, at most
	left           atomic.Int64 // bytes, as last measured; -1 = not known
	reserve        atomic.Int64 // bytes, as last measured
	dropped        atomic.Int64 // when history of the change feed was dropped last, in Unix nanoseconds
	refused        atomic.Int64 // when a commit was refused last, in Unix nanoseconds

	mu      sync.Mutex // held while it is measured, and over Config.OnSpace, and guards:
	waiting bool       // work has found no disk space, and waits
	tried   int        // polls since it found none
	then    int64      // bytes that were free when it found none; -1 = not known
	told    bool       // OnSpace was told that writes are refused
}

// isFull reports whether writes are refused because the disk is full, or may be.
func (d *diskSpace) isFull() bool {
	return d.onlyReserve.Load() || d.noJournalSpace.Load() || errs.IsFull(d.lifetime.flushError())
}

// isRefusing reports whether sets are refused, or one was refused lately that was too large for what is
// left. Then garbage counts however little it is.
func (d *diskSpace) isRefusing() bool {
	return d.onlyReserve.Load() || time.Now().UnixNano()-d.refused.Load() <= int64(policy.DiskPatience)
}

// available returns how many bytes a compaction or collection may write, as policy.State wants
// it: what is left, less what flushes, edits and other work will need. Such work may exceed
// DiskLimit by the reserve, since it frees disk space in the end.
func (d *diskSpace) available() int64 {
	v := d.views.Current()
	free := d.files.FreeBytes()
	available := free
	if d.cfg.DiskLimit > 0 {
		// Work may exceed our own limit by the reserve. But it can't exceed the disk.
		if available = max(d.measureLeft(), d.measureReserve(v)); free >= 0 {
			available = min(available, free)
		}
	}
	if available < 0 {
		return 0
	}
	// At least 1: to policy 0 means that nobody knows, and it would plan as if all fits.
	return max(available-flushBytes(v)-policy.ReserveSlackBytes-d.promised.Load(), 1)
}

// promiseBytes sets aside the bytes that a compaction or collection is going to write: sets and
// other work may not use them until release is called.
func (d *diskSpace) promiseBytes(bytes int64) (release func()) {
	d.promised.Add(bytes)
	d.credit.Store(0) // the next write measures again
	return func() {
		d.promised.Add(-bytes)
		d.credit.Store(0)
		// While sets are refused, few writes come that would measure again.
		if d.onlyReserve.Load() {
			d.measureSpace()
		}
	}
}

// measureLeft returns how many bytes disk and limit leave; -1 = not known.
func (d *diskSpace) measureLeft() int64 {
	left := d.files.FreeBytes()
	if d.cfg.DiskLimit <= 0 {
		return left
	}
	below := max(d.cfg.DiskLimit-d.files.FileBytes(), 0)
	if left < 0 {
		return below
	}
	return min(left, below)
}

// flushBytes returns how many bytes the flushes of a View's memtables need at most at any one
// time: all their runs, and the values that one flush copies from journal segments that it does
// not keep.
func flushBytes(v *view.View) int64 {
	const tiny = 4 << 20 // bytes; of fewer values all are copied
	copied := int64(0)
	for _, m := range v.Tables {
		values := m.SeparatedBytes.Load()
		copied = max(copied, min(values, max(values/2, tiny)))
	}
	return runBytes(v) + copied
}

// runBytes returns how many bytes the runs of the memtables take. A flush needs at least that.
func runBytes(v *view.View) (n int64) {
	for _, m := range v.Tables {
		n += m.InlineBytes.Load() + int64(m.Len())*entryBytes
	}
	return n
}

// roomForValues returns how many bytes of values a flush may copy.
func (d *diskSpace) roomForValues() int64 {
	left := d.measureLeft()
	if left < 0 { // not known
		return math.MaxInt64
	}
	return left - d.promised.Load() - runBytes(d.views.Current()) - policy.ReserveSlackBytes
}

// entryBytes is what an entry takes in a run, beside key and value.
const entryBytes = 48

// measureReserve returns the reserve: the bytes that sets may not use.
func (d *diskSpace) measureReserve(v *view.View) int64 {
	var runs, segments, largest uint64
	for _, r := range v.Layout.Runs() {
		runs += r.FileBytes()
	}
	for _, s := range v.Layout.Segments() {
		// Relocated segments were collected: no collection copies them again.
		if s.State().Status == layout.Live {
			segments += s.FileBytes
			largest = max(largest, s.FileBytes)
		}
	}
	compaction := min(runs/2, uint64(d.cfg.RunFileBytes)/2)
	collection := min(largest/2, uint64(d.cfg.SegmentBytes)/2)
	// Work under way may need more than the usual. If sets took that, it would fail at its end,
	// after it has used the disk for nothing.
	work := max(int64(compaction+collection), d.promised.Load())
	return flushBytes(v) + work + int64(segments/policy.ReserveSlackFraction) + policy.ReserveSlackBytes
}

// countWritten counts bytes that were written, and measures again from time to time.
func (d *diskSpace) countWritten(n int) {
	if d.credit.Add(-int64(n)) < 0 {
		d.measureSpace()
	}
	// Load comes first as each commit passes here: Swap would write a cache line that all cores
	// read.
	if d.noJournalSpace.Load() && d.noJournalSpace.Swap(false) {
		d.measureSpace()
	}
}

// measureSpace measures what is left and the reserve, and begins or ends refusing sets.
func (d *diskSpace) measureSpace() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.measureLocked()
}

func (d *diskSpace) measureLocked() {
	v := d.views.Current()
	left, reserve := d.measureLeft(), d.measureReserve(v)
	d.left.Store(left)
	d.reserve.Store(reserve)
	known := left >= 0
	tight := known && left < 2*reserve
	// The zeros that the journal writes ahead would take space that data needs.
	d.unflushed.journal.Economize(tight)
	// If nobody knows what is left, measuring again would tell nothing.
	d.credit.Store(1 << 62)
	// A third of what sets may take: the steps become small near the reserve, so that writes do not
	// pass it unseen.
	if known {
		d.credit.Store(min(max((left-reserve)/3, policy.MeasureLeastBytes), policy.MeasureMostBytes))
	}
	// The reserve is large because much is in memory. Flush early instead of refusing sets.
	if tight && d.flushHelps(v) {
		d.tasks.seal.Kick()
	}
	d.refuseLocked(known && left < reserve, known && left < reserve+reserve/16)
	d.pollLocked()
}

// refuseLocked begins to refuse sets when less than the reserve is left (below), and ends it
// when a little more is left (not nearly), so that it does not change with every write.
func (d *diskSpace) refuseLocked(below, nearly bool) {
	switch was := d.onlyReserve.Load(); {
	case !was && below:
		d.onlyReserve.Store(true)
		// Policy plans other work for a full disk (State.Full), and nothing else may kick the
		// tasks: there may be no more edits.
		d.tasks.kickAll()
	case was && !nearly:
		d.onlyReserve.Store(false)
		d.noJournalSpace.Store(false)
	}
	if d.told && !d.isFull() {
		d.told = false
		d.cfg.OnSpace(report.DiskSpace{Left: d.left.Load(), Reserve: d.reserve.Load()})
	}
}

// flushHelps reports whether a quarter or more of the reserve is for what is in memory, so that
// a flush makes the reserve smaller.
func (d *diskSpace) flushHelps(v *view.View) bool {
	return v.Active().Len() > 0 && flushBytes(v) >= d.reserve.Load()/4
}
