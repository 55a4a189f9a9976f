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
		t.tasks.compact.Kick() // remaps may want to be healed
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
	t.turns.collecting.Lock()
	defer t.turns.collecting.Unlock()
	for {
		found, err := t.collectNext(ctx, o)
		if !found {
			return did, err
		}
		if d := (*compact.Damaged)(nil); errors.As(err, &d) {
			t.damaged.add(d.Segment)
			continue
		}
		if err != nil {
			if isFull(err) {
				t.disk.workFailed(err, false)
			}
			return did, vfs.NoSpace(err)
		}
		did = true
	}
}

// collectNext does the next collection, and reports whether there was one to do.
func (t *Tree) collectNext(ctx context.Context, o occasion) (found bool, err error) {
	hold, err := t.views.Hold()
	if err != nil {
		return false, err
	}
	defer t.views.Reclaim() // what this replaces
	l := hold.View().Layout
	plan := t.planner.decide(hold.View(), func(s *policy.State) { s.Idle, s.Reclaim = o == atIdle, o == onRequest }).Collect
	if plan == nil || t.life.failed() != nil {
		hold.Release()
		return false, nil
	}
	part, release := hold.Narrow(func(part *view.View) {
		part.Tables, part.Runs = nil, nil
		part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return !slices.Contains(plan.Victims, num) })
	})
	defer release()
	work := Work{Kind: "collection", WorkInfo: WorkInfo{Reason: plan.Reason, Segments: int64(len(plan.Victims))}}
	begin := time.Now()
	defer func() { t.count.report(work, begin, err) }()
	c := compact.Collection{Target: t.files.newValueWriter, Remap: t.writeRemap, Discard: t.discardRemap, Memory: int(t.cfg.Memory / collectShare), Pace: t.pacer(o)}
	for _, num := range plan.Victims {
		c.Victims = append(c.Victims, compact.Victim{Reader: part.Segments.Find(num).Reader, Segment: l.Segment(num)})
	}
	t.budget.copying.Store(int64(plan.Bytes))
	defer t.budget.copying.Store(0)
	defer t.disk.promise(int64(plan.Bytes))()
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
	m := compact.Remap{Number: t.files.next(), Source: source, Target: target}
	size, err := segment.WriteRemap(t.files.segments(), segment.RemapHeader{Number: m.Number, Source: source, Target: target}, moves)
	m.Size = size
	return m, err
}

func (t *Tree) discardRemap(m compact.Remap) { t.files.remove(filename.New(filename.Remap, m.Number)) }

// pacer returns what keeps a collection out of the way of writers, unless
// somebody waits for it: it waits while memtables wait for their flush, and goes
// slowly while something is committed. The nearer garbage is to its budget, the
// faster it goes.
func (t *Tree) pacer(o occasion) func(context.Context, int) error {
	if o == onRequest {
		return nil
	}
	written := t.count.journalBytes.Load()
	var owed time.Duration
	return func(ctx context.Context, n int) error {
		now := t.count.journalBytes.Load()
		quiet := now == written
		written = now
		leisure := 1 - policy.CollectionPace(t.budget.fill())
		if leisure == 0 {
			return nil
		}
		if err := t.yield(ctx); quiet || err != nil {
			return err
		}
		if owed += time.Duration(leisure * float64(n) / policy.CollectionRate * float64(time.Second)); owed < policy.CollectionLeastWait {
			return nil
		}
		defer func() { owed = 0 }()
		return wait(ctx, owed, t.life.closing.Done())
	}
}

// yield lets a flush go first, for some time.
func (t *Tree) yield(ctx context.Context) error {
	v, changed := t.views.Await()
	switch {
	case t.views.Closed():
		return errs.ErrClosed
	case len(v.Tables)-1 <= policy.ThrottleTables:
		return nil
	}
	t.tasks.flush.Kick()
	return wait(ctx, policy.CollectionFlushWait, changed)
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
		if full != nil && !isFull(full) {
			return 0, full
		}
		if again, err = t.collectAndHeal(ctx); err != nil && !isFull(err) {
			return 0, err
		}
		if err = errors.Join(full, err); err == nil {
			break
		}
	}
	t.turns.pass()
	t.views.Reclaim()
	t.files.removeSpares(false)
	t.disk.survey()
	return max(before-t.fileBytes(), 0), err
}

// collectAndHeal is what Reclaim does behind the merge, and reports whether there
// was anything to do.
func (t *Tree) collectAndHeal(ctx context.Context) (did bool, err error) {
	ctx, end := t.life.until(ctx)
	defer end()
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
	plan := t.planner.decide(t.views.Current(), func(s *policy.State) { s.Reclaim = true })
	return t.life.failed() == nil && (plan.Collect != nil || plan.Compaction != nil)
}

// healAll merges runs until no handle leads through a remap, and reports whether
// there was one.
func (t *Tree) healAll(ctx context.Context) (did bool, err error) {
	t.turns.merging.Lock()
	defer t.turns.merging.Unlock()
	for {
		plan := t.planner.decide(t.views.Current(), func(s *policy.State) { s.Reclaim, s.Collecting = true, true }).Compaction
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
	s := t.Metrics()
	return s.RunBytes + s.SegmentBytes + s.RemapBytes
}
