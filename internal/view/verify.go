package view

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Verify reads every run and segment of the View and checks all checksums. It also checks
// that runs, segments and layout agree: every handle leads to its record, and the layout
// counts dead records and references right. It calls report for each problem. It returns
// an error only if it could not go on.
func (v *View) Verify(ctx context.Context, cfg segment.Config, coder *codec.Coder, report func(*errs.Corruption)) error {
	w := verifier{View: v, report: func(c *errs.Corruption) {
		v.NameKeys(c)
		report(c)
	}, hashSums: make(map[entry.FileNum]uint64)}
	for _, f := range v.Segments.Files {
		if err := errs.Ended(ctx); err != nil {
			return err
		}
		// Damage of one file must not hide that of the others.
		if err := ReportDamage(w.verifySegment(ctx, f, cfg, coder), w.report); err != nil {
			return err
		}
	}
	for _, r := range v.Runs {
		// Runs before handles: followHandles needs the sums of all of them.
		if err := ReportDamage(w.verifyRun(ctx, r), w.report); err != nil {
			return err
		}
	}
	for _, r := range v.Runs {
		if err := w.followHandles(ctx, r); err != nil {
			return err
		}
	}
	if err := w.verifyFeed(ctx, cfg, coder); err != nil {
		return err
	}
	// A record that nothing accounts for would keep its segment for ever.
	for _, s := range v.Layout.Segments() {
		if n := v.Layout.Unaccounted(s.Num); n != 0 {
			w.report(errs.NewCorruption("manifest", -1, "of segment %d, %d records are neither referred to nor dead", s.Num, int64(n)))
		}
	}
	return nil
}

// ReportDamage passes damage on to report and returns every other error.
func ReportDamage(err error, report func(*errs.Corruption)) error {
	var c *errs.Corruption
	if errors.As(err, &c) {
		report(c)
		return nil
	}
	return err
}

// verifier compares the handles of runs with the records of segments. It does not follow each
// handle, which would read most of the store again in random order. It reads runs and segments from
// front to back, and compares sums of hashes (hashSums).
type verifier struct {
	*View
	report func(*errs.Corruption)
	// By segment: the sum of the hashes of its live records, minus the hashes of the entries that
	// refer to it. If all agree, it is 0, in whatever order they were read. If not, it is 0 with a
	// probability of 1 in 2^64 only.
	hashSums map[entry.FileNum]uint64
	buf      []byte // scratch of hashRecord
	err      error  // why a handle could not be looked up
}

// hashRecord returns the hash of what a record and the entry that refers to it must have in common.
func (w *verifier) hashRecord(key []byte, version entry.Version, offset, length, raw uint64) uint64 {
	w.buf = append(w.buf[:0], key...)
	for _, n := range [...]uint64{uint64(version), offset, length, raw} {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, n)
	}
	return checksum.HashKey(0, w.buf)
}

// verifySegment reads a segment, or the forwarding table that stands for it.
func (w *verifier) verifySegment(ctx context.Context, f *Segment, cfg segment.Config, coder *codec.Coder) error {
	if f.Moved != nil {
		return f.Moved.Verify(cfg)
	}
	state := w.Layout.Segment(f.Num) // nil: a journal segment, to which no run refers
	return f.Scan(true, func(off int64, rec *entry.Record) error {
		if rec.Raw != 0 {
			value, err := f.ValueOf(off, rec)
			if err == nil {
				_, err = f.Decode(coder, nil, value, uint64(off))
			}
			if err != nil {
				return err
			}
		}
		// Only what runs refer to. Dead records have no entry to compare with.
		if state != nil && state.Owned(off, rec) {
			w.hashSums[f.Num] += w.hashRecord(rec.Key, state.Stamp+rec.Version, uint64(off), uint64(rec.ValueSize), uint64(rec.Raw))
		}
		return errs.Ended(ctx)
	})
}

// verifyFeed reads the files that only the change feed needs.
func (w *verifier) verifyFeed(ctx context.Context, cfg segment.Config, coder *codec.Coder) error {
	for _, s := range w.Layout.Feed().Segments {
		if w.Feed.Segments.Find(s.File) == nil { // see Feed
			w.report(errs.NewCorruption(filename.Of(filename.Journal, s.File), -1, "history of the change feed can't be opened"))
		}
	}
	for _, f := range w.Feed.Segments.Files {
		if w.Segments.Find(f.Num) == f {
			continue
		}
		// The records that entries refer to are in another segment by now.
		alone := verifier{View: &View{Layout: layout.New()}, report: w.report}
		if err := ReportDamage(alone.verifySegment(ctx, f, cfg, coder), w.report); err != nil {
			return err
		}
	}
	for _, r := range w.Feed.Runs {
		if slices.Contains(w.Runs, r) {
			continue
		}
		r.Verify(ctx, w.report, func(*entry.Entry) {})
		if err := errs.Ended(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verifyRun verifies a run, subtracts its entries from the sums of their segments, and compares its
// references with those in the layout.
func (w *verifier) verifyRun(ctx context.Context, r *Run) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, fmt.Sprintf("run %d", r.ID))
	refs := make(map[entry.FileNum]uint64)
	whole := true
	r.Verify(ctx, func(c *errs.Corruption) {
		whole = false
		w.report(c)
	}, func(e *entry.Entry) {
		if e.Separated {
			refs[e.Handle.Segment]++
			w.err = cmp.Or(w.err, ReportDamage(w.withKeys(w.checkHandle(e), e.Key), w.report))
		}
	})
	// Not all entries were read, so counts would only repeat that the run is damaged.
	if err := cmp.Or(errs.Ended(ctx), w.err); err != nil || !whole {
		return err
	}
	for _, ref := range w.Layout.Run(r.ID).Refs {
		if n := refs[ref.Segment]; n != ref.Records {
			w.report(errs.NewCorruption("manifest", -1, "%d entries of run %d refer to segment %d, not %d", n, r.ID, ref.Segment, ref.Records))
		}
		delete(refs, ref.Segment)
	}
	// What is left has no line in the layout, so its segment could be removed too early.
	for num, n := range refs {
		w.report(errs.NewCorruption("manifest", -1, "%d entries of run %d refer to segment %d, not 0", n, r.ID, num))
	}
	return nil
}

// checkHandle subtracts an entry from the sum of its segment. It checks what needs no look at the
// record: the segment exists, and the record is not in its dead set.
func (w *verifier) checkHandle(e *entry.Entry) error {
	_, h, err := w.locateValue(e)
	if err != nil {
		return err
	}
	w.hashSums[h.Segment] -= w.hashRecord(e.Key, e.Version, h.Offset, h.Length, uint64(e.Raw))
	// Both places: what died before a collection is noted at the source, what dies later at the
	// target.
	for _, h := range []entry.Handle{e.Handle, h} {
		if s := w.Layout.Segment(h.Segment); s != nil && s.IsDead(h.Offset) {
			return errs.NewCorruption("manifest", -1, "the record at %d of segment %d is needed, but recorded as dead", h.Offset, s.Num)
		}
	}
	return nil
}

// followHandles finds the wrong handles of a run. It reads the record of each handle into a segment
// whose sum is not 0. Other problems were reported before.
func (w *verifier) followHandles(ctx context.Context, r *Run) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, fmt.Sprintf("run %d", r.ID))
	// Nearly always all sums are 0: then no record is read a second time.
	if !slices.ContainsFunc(slices.Collect(maps.Values(w.hashSums)), func(sum uint64) bool { return sum != 0 }) {
		return nil
	}
	it := r.Iterator()
	defer it.Close()
	n, buf := 0, []byte(nil)
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return errs.Ended(ctx)
		}
		e := it.Entry()
		if !e.Separated {
			continue
		}
		f, h, err := w.locateValue(e)
		if err != nil || w.hashSums[h.Segment] == 0 {
			continue
		}
		v, err := f.readStored(buf, nil, h, e.Key, e)
		// Never a slice of the mapping: the next record would be written into it.
		if v.Own {
			buf = v.Bytes
		}
		if err := ReportDamage(w.withKeys(err, e.Key), w.report); err != nil {
			return err
		}
	}
	// verifyRun has reported damage of the run itself.
	return ReportDamage(it.Err(), func(*errs.Corruption) {})
}
