package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/pageio"
)

// Verify reads SUPER, the manifest, every run and segment, checks all checksums,
// and that they agree with each other: every handle leads to its record, and
// what was counted dead or referred to is what there is. It calls report for
// each problem; its error says only why it could not go on.
func (t *Tree) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := t.hold()
	if err != nil {
		return err
	}
	view, release := hold.narrow(func(part *View) { part.tables = nil })
	defer release()
	if err := reported(t.log.Verify(report), report); err != nil {
		return err
	}
	layout := view.layout
	for _, f := range view.segments.files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := reported(t.verifyFile(ctx, f), report); err != nil {
			return err
		}
	}
	for _, r := range view.runs {
		if err := reported(view.verifyRun(ctx, r, report), report); err != nil {
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

// verifyFile reads a segment, or the remap that stands for it.
func (t *Tree) verifyFile(ctx context.Context, f *valueFile) error {
	if f.moved != nil {
		return f.moved.Verify(t.segmentConfig())
	}
	_, err := f.Scan(true, func(off int64, rec *entry.Record) error {
		if rec.Raw != 0 {
			if _, err := f.Decode(&t.coder, nil, rec.Stored(), uint64(off)); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
	return err
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

// verifyRun checks a run, follows its handles, and compares what it finds with
// what the layout says.
func (v *View) verifyRun(ctx context.Context, r *sortedRun, report func(*errs.Corruption)) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, fmt.Sprintf("run %d", r.id))
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
		if err := reported(v.verifyHandle(e), report); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	for _, ref := range v.layout.Run(r.id).Refs {
		if n := refs[ref.Segment]; n != ref.Records {
			report(errs.NewCorruption("manifest", -1, "%d entries of run %d refer to segment %d, not %d", n, r.id, ref.Segment, ref.Records))
		}
		delete(refs, ref.Segment)
	}
	for num, n := range refs {
		report(errs.NewCorruption("manifest", -1, "%d entries of run %d refer to segment %d, not 0", n, r.id, num))
	}
	return nil
}

// verifyHandle reads the value of an entry, which must not be recorded as dead.
func (v *View) verifyHandle(e *entry.Entry) error {
	if _, err := v.stored(e.Key, e); err != nil {
		return err
	}
	h := e.Handle
	if err := v.heal(&h); err != nil {
		return err
	}
	for _, h := range []entry.Handle{e.Handle, h} {
		if s := v.layout.Segment(h.Segment); s != nil && s.IsDead(h.Offset) {
			return errs.NewCorruption("manifest", -1, "the record at %d of segment %d is needed, but recorded as dead", h.Offset, s.Num)
		}
	}
	return nil
}
