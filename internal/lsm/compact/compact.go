// Package compact carries out flushes, compactions and collections: it merges sorted entries
// into a new run, drops what no reader can see any more, moves values to other segments, and
// reports exactly which records became garbage.
//
// It changes nothing that exists: its outputs are new files that no View and no manifest names
// yet. The caller adds them to the store by an edit of the manifest.
package compact

import (
	"cmp"
	"context"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Input describes one flush or compaction.
type Input struct {
	// Entries yields what to merge, in entry.Compare order, each (key, version)
	// once. Execute closes it.
	Entries iterator.Iterator
	Rules   Rules
	// Unversioned gives all that is written version 0: the version of the run is not known yet. The
	// versions of the inputs tell only what is newer. One entry of a key may stay, at most.
	Unversioned bool
	// RewriteHandle, unless nil, changes a handle that leads through a forwarding table to where
	// the record is now. It returns an error for a handle that leads to no record.
	RewriteHandle func(*entry.Handle) error
	// Extract says whether separated values move out of a segment; nil: none do.
	Extract func(segment entry.FileNum) bool
	// Move copies the record of a separated value to a segment, and returns the new handle. The
	// record is verified in the memory from which it is written. If it is damaged, Execute returns a
	// *Damaged.
	Move func(to *segment.ValueWriter, key []byte, e *entry.Entry) (entry.Handle, error)
	// Yield, unless nil, is called before each Move. Its error ends the work.
	Yield func() error
	// Run writes the output run.
	Run *run.Writer
	// Values begins a value segment for the values that move; only called if any do.
	Values func() (*segment.ValueWriter, error)
	// ValueBytes is the length at which a value segment ends and the next begins.
	ValueBytes int64
}

// DescribeValues returns what an edit says of a value segment that was finished.
func DescribeValues(s segment.Stats) layout.Segment {
	return layout.Segment{Num: s.Number, Kind: filename.Value, FileBytes: uint64(s.Size), Records: s.Records, Bytes: s.ValueBytes, KeyID: s.KeyID}
}

// Output is the result: new files, which are synced, and what became garbage.
type Output struct {
	Run         layout.RunMeta   // without files if nothing was kept
	Values      []layout.Segment // new value segments
	Forwardings []Forwarding     // of collected segments
	Dead        layout.Deaths    // records of older segments that lost their entry
	Read        uint64           // entries read
	Dropped     uint64           // entries not written
	Extracts    uint64           // values moved
	Bytes       uint64           // of collected segments, read
}

// FileBytes is the length of the new files. Zeros that a value segment is filled with don't count:
// they are overwritten before the system writes them.
func (out *Output) FileBytes() int64 {
	n := int64(out.Run.FileBytes())
	for _, s := range out.Values {
		n += int64(s.FileBytes)
	}
	for _, m := range out.Forwardings {
		n += m.Size
	}
	return n
}

// Describe adds the new value segments and forwarding tables to an edit.
func (out *Output) Describe(edit *layout.Edit) {
	edit.AddSegments = append(edit.AddSegments, out.Values...)
	for _, m := range out.Forwardings {
		edit.States = append(edit.States, m.SegmentState)
	}
}

// Names lists the new files.
func (out *Output) Names() (list []filename.Name) {
	for _, file := range out.Run.Files {
		list = append(list, filename.New(filename.Run, file.Num))
	}
	for _, s := range out.Values {
		list = append(list, filename.New(filename.Value, s.Num))
	}
	for _, m := range out.Forwardings {
		list = append(list, filename.New(filename.Forwarding, m.Map))
	}
	return list
}

// checkEvery is how many entries pass between two looks at the context.
const checkEvery = 1024

// Execute does the work. On an error it removes what it wrote.
func Execute(ctx context.Context, in Input) (out Output, err error) {
	w := worker{in: in, out: &out}
	defer func() {
		if err != nil {
			w.abortWriters()
		}
	}()
	// One guard around all moves: the iterator reads mapped memory, and a fault in it must be an
	// error, not the end of the process.
	defer pageio.Guard(pageio.Arm(), &err, "a run that is compacted")
	if err := w.writeEntries(ctx); err != nil {
		return out, err
	}
	return out, w.finishRun()
}

// writeEntries writes the entries that stay. It closes the sources before it returns, as the range
// deletes that are written next may take much memory.
func (w *worker) writeEntries(ctx context.Context) error {
	from := w.in.Entries
	defer from.Close()
	rules := newRetention(w.in.Rules)
	defer rules.closeCovers()
	for ok := from.First(); ok; ok = from.Next() {
		if w.out.Read++; w.out.Read%checkEvery == 0 && ctx.Err() != nil {
			return errs.Ended(ctx)
		}
		e, err := w.rewriteHandle(from.Entry())
		if err != nil {
			return err
		}
		if err := w.judgeEntry(ctx, e, rules); err != nil {
			return err
		}
	}
	return cmp.Or(from.Err(), rules.failed)
}

// worker holds the outputs being written.
type worker struct {
	in       Input                  // what is to be done
	out      *Output                // what was done so far
	values   *segment.ValueWriter   // the value segment that is being written; nil: none
	finished []*segment.ValueWriter // complete value segments, to remove after an error
	scratch  entry.Entry            // the copy of an entry whose handle or version is changed

	superseded layout.Account // account of what the entries that stay have replaced
}

// rewriteHandle returns e with a handle that leads through no forwarding table. It changes a copy,
// as e belongs to the source.
func (w *worker) rewriteHandle(e *entry.Entry) (*entry.Entry, error) {
	if w.in.RewriteHandle == nil || !e.Separated {
		return e, nil
	}
	w.scratch = *e
	return &w.scratch, w.in.RewriteHandle(&w.scratch.Handle)
}

// judgeEntry writes e, a delete in its place, or nothing.
func (w *worker) judgeEntry(ctx context.Context, e *entry.Entry, rules *retention) error {
	switch rules.judge(e) {
	case keep:
		rules.countSuperseded(&w.superseded, e)
		return w.writeEntry(ctx, e)
	// An expired entry must go on hiding older versions, so a delete takes its place. Its value is
	// not needed.
	case bury:
		w.countDead(e)
		grave := entry.Entry{Key: e.Key, Version: e.Version, Kind: entry.Delete}
		rules.countSuperseded(&w.superseded, &grave)
		return w.in.Run.Add(&grave)
	// Nobody can see it, so its value is garbage, too.
	default: // drop
		w.out.Dropped++
		w.countDead(e)
		return nil
	}
}

// writeEntry writes e, and moves its value if that is to leave its segment.
func (w *worker) writeEntry(ctx context.Context, e *entry.Entry) error {
	if w.in.Unversioned {
		w.scratch = *e
		w.scratch.Version, e = 0, &w.scratch
	}
	if !e.Separated || w.in.Extract == nil || !w.in.Extract(e.Handle.Segment) {
		return w.in.Run.Add(e)
	}
	if ctx.Err() != nil { // values may be large
		return errs.Ended(ctx)
	}
	if w.in.Yield != nil {
		if err := w.in.Yield(); err != nil {
			return err
		}
	}
	if w.values != nil && w.values.Size() >= w.in.ValueBytes {
		if err := w.finishValues(); err != nil {
			return err
		}
	}
	if w.values == nil {
		var err error
		if w.values, err = w.in.Values(); err != nil {
			return err
		}
	}
	handle, err := w.in.Move(w.values, e.Key, e)
	if err != nil {
		return wrapDamage(e.Handle.Segment, err)
	}
	// The record that it leaves behind is garbage of the old segment.
	w.countDead(e)
	w.out.Extracts++
	moved := *e
	moved.Handle = handle
	return w.in.Run.Add(&moved)
}

// countDead counts the record of e's value, which no entry leads to any more.
func (w *worker) countDead(e *entry.Entry) {
	if e.Separated {
		w.out.Dead.Add(e.Handle)
	}
}

// finishRun makes the values durable, and then the run, whose handles lead to them.
func (w *worker) finishRun() error {
	// Values first: a run that is durable must not lead to values that are not.
	if err := w.finishValues(); err != nil {
		return err
	}
	if err := w.writeRangeDeletes(); err != nil {
		return err
	}
	m, err := w.in.Run.Finish()
	w.out.Run = m
	w.out.Run.Superseded = w.superseded.List()
	return err
}

func (w *worker) writeRangeDeletes() error {
	if w.in.Unversioned {
		return w.in.Run.AddRanges(w.in.Rules.RangeDeletes...)
	}
	return w.in.Rules.writeRangeDeletes(w.in.Run, &w.superseded)
}

// finishValues completes the current value segment.
func (w *worker) finishValues() error {
	if w.values == nil {
		return nil
	}
	stats, err := w.values.Finish()
	if err != nil {
		return err
	}
	w.out.Values = append(w.out.Values, DescribeValues(stats))
	w.finished = append(w.finished, w.values)
	w.values = nil
	return nil
}

// abortWriters removes what was written. If a removal fails, the next Open removes the file.
func (w *worker) abortWriters() {
	w.in.Run.Abort()
	if w.values != nil {
		_ = w.values.Abort()
	}
	for _, v := range w.finished {
		_ = v.Abort()
	}
	*w.out = Output{}
}
