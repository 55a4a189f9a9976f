package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Collection moves what is live in segments with much garbage to a new one, and
// changes nothing in runs: their handles go on naming the old segments, and Views
// lead them on through remaps, until merges have rewritten them.
//
// Merges go on beside it. What died in a victim while its records were copied is
// known when the edit is made, and recorded as dead in the target; a merge that
// began before the edit and ends after it finds handles of a victim dead, which
// then are translated (conclude.go). So a record is never both needed and dead,
// and what was deleted at any moment stays deleted: no entry is ever written.

// runCollect collects what is worth it while clients may be busy.
func (t *Tree) runCollect(ctx context.Context) error {
	did, err := t.collectAll(ctx, whileBusy)
	if did {
		t.work.merge.Kick() // remaps may want to be healed
	}
	return err
}

// occasion says for what a collection is.
type occasion int

const (
	whileBusy occasion = iota
	atIdle
	onRequest
)

// collectAll collects until nothing more is worth it, and reports whether
// anything was. An error ends it, but not background work: the store is as good
// as before, and it is tried again after the next change.
func (t *Tree) collectAll(ctx context.Context, o occasion) (did bool, err error) {
	t.work.collecting.Lock()
	defer t.work.collecting.Unlock()
	for {
		found, err := t.collectNext(ctx, o)
		if !found {
			return did, err
		}
		if d := (*compact.Damaged)(nil); errors.As(err, &d) {
			t.noteDamage(d)
			continue
		}
		if err != nil {
			if outOfSpace(err) {
				t.noRoom(err, false)
			}
			return did, vfs.NoSpace(err)
		}
		did = true
	}
}

// noteDamage has a segment stay as it is, so that nothing of it gets lost.
func (t *Tree) noteDamage(d *compact.Damaged) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damaged = append(t.damaged[:len(t.damaged):len(t.damaged)], d.Segment)
}

// damagedSegments can't be collected.
func (t *Tree) damagedSegments() []entry.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damaged
}

// collectNext does the next collection, and reports whether there was one to do.
func (t *Tree) collectNext(ctx context.Context, o occasion) (found bool, err error) {
	hold, err := t.views.Hold()
	if err != nil {
		return false, err
	}
	defer t.views.Reclaim() // what this replaces
	l := hold.View().Layout
	state := t.state(hold.View())
	state.Idle, state.Reclaim = o == atIdle, o == onRequest
	plan := policy.Decide(l, state, t.cfg.Policy).Collect
	if plan == nil || t.failed() != nil {
		hold.Release()
		return false, nil
	}
	part, release := hold.Narrow(func(part *view.View) {
		part.Tables, part.Runs = nil, nil
		part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return !slices.Contains(plan.Victims, num) })
	})
	defer release()
	work := Work{Kind: "collection", Reason: plan.Reason, Segments: len(plan.Victims)}
	begin := time.Now()
	defer func() { work.Took = time.Since(begin); t.report(work, err) }()
	c := compact.Collection{Target: t.newValueWriter, Remap: t.writeRemap, Discard: t.discardRemap, Memory: int(t.cfg.Memory / collectShare), Pace: t.pacer(o)}
	for _, num := range plan.Victims {
		c.Victims = append(c.Victims, compact.Victim{Reader: part.Segments.Find(num).Reader, Segment: l.Segment(num)})
	}
	t.space.copying.Store(int64(plan.Bytes))
	defer t.space.copying.Store(0)
	defer t.promise(int64(plan.Bytes))()
	out, err := compact.Collect(ctx, c)
	if err != nil {
		return true, fmt.Errorf("collect: %w", err)
	}
	if err := t.conclude(new(layout.Edit), &out, change{since: l}); err != nil {
		return true, fmt.Errorf("collect: %w", err)
	}
	work.done(&out)
	work.BytesIn = int64(out.Bytes)
	return true, nil
}

func (t *Tree) writeRemap(source, target entry.FileNum, moves []segment.Move) (compact.Remap, error) {
	m := compact.Remap{Number: t.nextFile(), Source: source, Target: target}
	size, err := segment.WriteRemap(t.segmentConfig(), segment.RemapHeader{Number: m.Number, Source: source, Target: target}, moves)
	m.Size = size
	return m, err
}

func (t *Tree) discardRemap(m compact.Remap) { t.removeFile(filename.New(filename.Remap, m.Number)) }

const (
	collectRate = 128 << 20        // bytes a second, read and written, while clients write
	collectWait = time.Second      // at most, for a memtable that is to be flushed
	settleWait  = time.Millisecond // shorter waits are put together
)

// pacer returns what keeps a collection out of the way of writers, unless
// somebody waits for it: it waits while memtables wait for their flush, and goes
// slowly while something is committed. The nearer garbage is to its budget, the
// faster it goes.
func (t *Tree) pacer(o occasion) func(context.Context, int) error {
	if o == onRequest {
		return nil
	}
	written := t.stats.journalBytes.Load()
	var owed time.Duration
	return func(ctx context.Context, n int) error {
		now := t.stats.journalBytes.Load()
		quiet := now == written
		written = now
		leisure := 1 - policy.CollectionPace(t.space.fill())
		if leisure == 0 {
			return nil
		}
		if err := t.yield(ctx); quiet || err != nil {
			return err
		}
		if owed += time.Duration(leisure * float64(n) / collectRate * float64(time.Second)); owed < settleWait {
			return nil
		}
		defer func() { owed = 0 }()
		return wait(ctx, owed, t.closing.Done())
	}
}

// yield lets a flush go first, for some time.
func (t *Tree) yield(ctx context.Context) error {
	v, changed := t.views.Await()
	switch {
	case t.views.Closed():
		return errs.ErrClosed
	case len(v.Tables)-1 <= freeTables:
		return nil
	}
	t.work.flush.Kick()
	return wait(ctx, collectWait, changed)
}

// Reclaim gives back the space of everything that nobody can see any more, as
// far as that is worth the work: it flushes, merges all runs, and collects until
// garbage is at most a fifth of what is live. It returns by how much the files
// shrank. Where there is no space for one of these, it goes on with the next, and
// begins again if that has given some back.
func (t *Tree) Reclaim(ctx context.Context) (freed int64, err error) {
	before := t.fileBytes()
	for again := true; again; {
		full := t.Compact(ctx)
		if full != nil && !outOfSpace(full) {
			return 0, full
		}
		if again, err = t.collectAndHeal(ctx); err != nil && !outOfSpace(err) {
			return 0, err
		}
		if err = errors.Join(full, err); err == nil {
			break
		}
	}
	t.work.pass()
	t.views.Reclaim()
	t.removeSpares(false)
	t.survey()
	return max(before-t.fileBytes(), 0), err
}

// collectAndHeal is what Reclaim does behind the merge, and reports whether there
// was anything to do.
func (t *Tree) collectAndHeal(ctx context.Context) (did bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.closing, func() { cancel(errs.ErrClosed) })()
	for again := true; again; {
		if again, err = t.collectAll(ctx, onRequest); err != nil {
			return did || again, err
		}
		healed, err := t.healAll(ctx)
		again = again || healed
		if err != nil {
			return did || again, err
		}
		did = did || again
		// Work in the background may have healed what stood in the way of the
		// collection: then neither has found anything, and there is more to do.
		again = again || t.wasteful()
	}
	return did, nil
}

// wasteful reports whether a Reclaim would do more, as of now.
func (t *Tree) wasteful() bool {
	v := t.views.Current()
	state := t.state(v)
	state.Reclaim = true
	plan := policy.Decide(v.Layout, state, t.cfg.Policy)
	return t.failed() == nil && (plan.Collect != nil || plan.Compaction != nil)
}

// healAll merges runs until no handle leads through a remap, and reports whether
// there was one.
func (t *Tree) healAll(ctx context.Context) (did bool, err error) {
	t.work.merging.Lock()
	defer t.work.merging.Unlock()
	for {
		v := t.views.Current()
		state := t.state(v)
		state.Reclaim, state.Collecting = true, true
		plan := policy.Decide(v.Layout, state, t.cfg.Policy).Compaction
		if plan == nil {
			return did, nil
		}
		if err := t.merge(ctx, plan); err != nil {
			return did, vfs.NoSpace(err)
		}
		did = true
	}
}

// fileBytes is the length of all files of runs, segments and remaps.
func (t *Tree) fileBytes() int64 {
	s := t.Stats()
	return s.RunBytes + s.SegmentBytes + s.RemapBytes
}
