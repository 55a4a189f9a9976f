package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/manifest"
)

// Verify reads every run and segment, checks all checksums, and that runs,
// segments and the manifest agree with each other: every handle leads to its
// record, and what was counted dead or referred to is what there is. It calls
// report for each problem; its error says only why it could not go on.
func (t *Tree) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := t.hold()
	if err != nil {
		return err
	}
	defer hold.Release()
	layout := hold.view.layout
	for _, f := range hold.view.segments.files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		_, err := f.Scan(true, func(int64, *entry.Record) error { return context.Cause(ctx) })
		if err := reported(err, report); err != nil {
			return err
		}
	}
	for _, r := range hold.view.runs {
		r.Verify(report)
		if err := t.verifyHandles(ctx, hold.view, r, layout.Run(r.id), report); err != nil {
			return err
		}
	}
	for _, s := range layout.Segments() {
		if n := layout.Unaccounted(s.Num); n != 0 {
			report(errs.NewCorruption("manifest", -1, "of segment %d, %d records are neither referred to nor dead", s.Num, int64(n)))
		}
	}
	return nil
}

// reported passes damage on and keeps every other error.
func reported(err error, report func(*errs.Corruption)) error {
	var c *errs.Corruption
	if errors.As(err, &c) {
		report(c)
		return nil
	}
	return err
}

// verifyHandles follows every handle of a run, and compares what it finds with
// what the manifest says of it. A run that was replaced meanwhile has no record.
func (t *Tree) verifyHandles(ctx context.Context, v *View, r *sortedRun, m *manifest.Run, report func(*errs.Corruption)) error {
	refs := make(map[entry.FileNum]uint64)
	it := r.Iterator()
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		e := it.Entry()
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !e.Separated {
			continue
		}
		refs[e.Handle.Segment]++
		_, err := v.separated(e.Key, e)
		if err := reported(err, report); err != nil {
			return err
		}
	}
	if err := reported(it.Err(), report); err != nil || m == nil {
		return err
	}
	for _, ref := range m.Refs {
		if refs[ref.Segment] != ref.Records {
			report(errs.NewCorruption(fmt.Sprintf("run %d", m.ID), -1, "%d entries refer to segment %d, the manifest says %d",
				refs[ref.Segment], ref.Segment, ref.Records))
		}
	}
	return nil
}
