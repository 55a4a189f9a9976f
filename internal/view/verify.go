package view

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/segment"
)

// Verify reads every run and segment of the View, checks all checksums, and that
// they agree with the layout: every handle leads to its record, and what was
// counted dead or referred to is what there is. It calls report for each problem;
// its error says only why it could not go on.
func (v *View) Verify(ctx context.Context, cfg segment.Config, coder *codec.Coder, report func(*errs.Corruption)) error {
	for _, f := range v.Segments.Files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := Reported(f.verify(ctx, cfg, coder), report); err != nil {
			return err
		}
	}
	for _, r := range v.Runs {
		if err := Reported(v.verifyRun(ctx, r, report), report); err != nil {
			return err
		}
	}
	for _, s := range v.Layout.Segments() {
		if n := v.Layout.Unaccounted(s.Num); n != 0 {
			report(errs.NewCorruption("manifest", -1, "of segment %d, %d records are neither referred to nor dead", s.Num, int64(n)))
		}
	}
	return nil
}

// Reported passes damage on to report and returns every other error.
func Reported(err error, report func(*errs.Corruption)) error {
	var c *errs.Corruption
	if errors.As(err, &c) {
		report(c)
		return nil
	}
	return err
}

// verify reads a segment, or the remap that stands for it.
func (f *Segment) verify(ctx context.Context, cfg segment.Config, coder *codec.Coder) error {
	if f.Moved != nil {
		return f.Moved.Recheck(cfg)
	}
	_, err := f.Scan(true, func(off int64, rec *entry.Record) error {
		if rec.Raw != 0 {
			if _, err := f.Decode(coder, nil, rec.Stored(), uint64(off)); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
	return err
}

// verifyRun checks a run, follows its handles, and compares what it finds with
// what the layout says.
func (v *View) verifyRun(ctx context.Context, r *Run, report func(*errs.Corruption)) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, fmt.Sprintf("run %d", r.ID))
	r.Verify(report)
	refs := make(map[entry.FileNum]uint64)
	it := r.Iterator()
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := it.Entry()
		if !e.Separated {
			continue
		}
		refs[e.Handle.Segment]++
		if err := Reported(v.verifyHandle(e), report); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	for _, ref := range v.Layout.Run(r.ID).Refs {
		if n := refs[ref.Segment]; n != ref.Records {
			report(errs.NewCorruption("manifest", -1, "%d entries of run %d refer to segment %d, not %d", n, r.ID, ref.Segment, ref.Records))
		}
		delete(refs, ref.Segment)
	}
	for num, n := range refs {
		report(errs.NewCorruption("manifest", -1, "%d entries of run %d refer to segment %d, not 0", n, r.ID, num))
	}
	return nil
}

// verifyHandle reads the value of an entry, which must not be recorded as dead.
func (v *View) verifyHandle(e *entry.Entry) error {
	if _, err := v.Stored(e.Key, e); err != nil {
		return err
	}
	h := e.Handle
	if err := v.Heal(&h); err != nil {
		return err
	}
	for _, h := range []entry.Handle{e.Handle, h} {
		if s := v.Layout.Segment(h.Segment); s != nil && s.IsDead(h.Offset) {
			return errs.NewCorruption("manifest", -1, "the record at %d of segment %d is needed, but recorded as dead", h.Offset, s.Num)
		}
	}
	return nil
}
