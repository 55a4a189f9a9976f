package spill

import (
	"cmp"
	"context"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// fanIn is how many parts become one. A read of pending writes looks into fewer than fanIn parts
// for each tenfold of the memory, and each key is rewritten once for each.
const fanIn = 10

// addPart writes the newest part, and compacts the newest ones if there are enough: each fanIn that
// were added become one, each fanIn of those again, and so on, as a carry when one counts in base
// fanIn.
func (f *Files) addPart(ctx context.Context, bytes int, fill func(w *run.Writer) error) error {
	if f.err != nil || bytes == 0 {
		return f.err
	}
	f.bytes += int64(bytes)
	if f.cfg.Sorted {
		f.err = f.fillSorted(fill)
		return f.err
	}
	f.added++
	f.err = f.writePart(fill)
	for n := f.added; f.err == nil && n%fanIn == 0; n /= fanIn {
		f.err = f.compactNewest(ctx, fanIn, f.newPart())
	}
	return f.err
}

// newPart begins a run that is not synced: a crash ends the transaction, and FinishRun writes all
// once more.
func (f *Files) newPart() *run.Writer {
	return f.cfg.Files.NewRunWriter(false, nil, nil).WithoutSync()
}

// fillSorted adds to the one part of Files that are Sorted.
func (f *Files) fillSorted(fill func(w *run.Writer) error) error {
	if f.sorted == nil {
		f.added = 1
		f.sorted = f.cfg.Files.NewRunWriter(false, nil, nil)
	}
	return fill(f.sorted)
}

// writePart writes a part, without a sync.
func (f *Files) writePart(fill func(w *run.Writer) error) error {
	w := f.newPart()
	defer w.Abort()
	if err := fill(w); err != nil {
		return err
	}
	// Before anybody can find the handles in the part.
	if f.writer != nil {
		if err := f.writer.Flush(); err != nil {
			return err
		}
	}
	meta, err := w.Finish()
	if err != nil {
		return err
	}
	return f.openPart(meta, 0)
}

// openPart opens a run that was written, in the place of the newest n parts.
func (f *Files) openPart(m layout.RunMeta, n int) error {
	f.written += int64(m.FileBytes())
	age := entry.Version(f.added)
	m.Stamp, m.MinVersion, m.MaxVersion = age, age, age
	r, err := f.cfg.Files.OpenRun(&layout.Run{RunMeta: m})
	if err != nil {
		for _, file := range m.Files {
			f.cfg.Files.RemoveFile(filename.New(filename.Run, file.Num))
		}
		return err
	}
	if f.lent {
		// Bytes that readers hold stay valid until Discard, so the mappings stay, too.
		f.retired.Runs = append(f.retired.Runs, f.parts.Runs[:n]...)
	} else {
		discardFiles(&view.View{Runs: f.parts.Runs[:n]}, true)
	}
	f.parts.Runs = slices.Concat([]*view.Run{r}, f.parts.Runs[n:])
	return nil
}

// compactNewest makes one part of the newest n, without what was overwritten or deleted.
func (f *Files) compactNewest(ctx context.Context, n int, w *run.Writer) error {
	ranges, done := view.RangeDeletesOf(f.parts.Runs[:n])
	defer done()
	out, err := compact.Execute(ctx, compact.Input{
		Entries: view.NewCopier(f.parts.Runs[:n]),
		// After the commit only the newest write of a key counts, so older ones go.
		Rules:       compact.Rules{History: compact.History{Watermark: entry.MaxVersion}, RangeDeletes: ranges},
		Unversioned: true,
		Run:         w,
	})
	if err != nil {
		return err
	}
	for _, list := range out.Dead.Lists() {
		f.out.Dead.Take(list)
	}
	f.out.Run = out.Run
	return f.openPart(out.Run, n)
}

// FinishRun makes one durable run of everything, and ends the value segments.
// Nothing can be added afterwards; all else goes on. After an error the Files can
// only be discarded.
func (f *Files) FinishRun(ctx context.Context) (err error) {
	if f.err != nil || len(f.parts.Runs) == 0 && f.sorted == nil {
		return cmp.Or(f.err, errs.ErrInvalid)
	}
	defer func() { f.err = cmp.Or(err, errs.ErrTxnDone) }()
	// First the values, then the run that leads to them.
	if err := f.finishSegment(); err != nil {
		return err
	}
	if f.cfg.Sorted {
		return f.finishSorted()
	}
	return f.compactNewest(ctx, len(f.parts.Runs), f.cfg.Files.NewRunWriter(false, nil, nil))
}

// finishSorted is FinishRun for the one part of Files that are Sorted.
func (f *Files) finishSorted() error {
	w := f.sorted
	if err := w.AddRanges(f.ranges...); err != nil {
		return err
	}
	m, err := w.Finish()
	if err != nil {
		return err
	}
	// From now on openPart has the files: it removes them itself if it can't open them.
	f.sorted, f.out.Run = nil, m
	return f.openPart(m, 0)
}

// discardFiles closes the files of v and, with remove, removes them.
func discardFiles(v *view.View, remove bool) {
	if remove {
		v.RetireFiles()
	}
	v.Close()
}
