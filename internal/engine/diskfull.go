package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/report"
)

// While the disk is full, writers are refused, work waits, and a timer looks for free space.

// pollLocked sets the timer for pollSpace if writers or work wait for disk space.
func (d *diskSpace) pollLocked() {
	// Arm and not Touch: this is called each time that space is measured, so a busy store would
	// never poll.
	if d.onlyReserve.Load() || d.waiting {
		d.tasks.poll.Arm()
	}
}

// pollSpace looks whether there is disk space again, and starts the work that waits for it.
func (d *diskSpace) pollSpace(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	free := d.files.FreeBytes()
	switch {
	case !d.waiting:
	case d.worthTryingLocked(free):
		d.waiting = false
		d.tasks.kickAll()
	case free < 0 && !errs.IsFull(d.lifetime.flushError()):
		d.waiting = false // compactions and collections are tried again after the next change
	}
	d.measureLocked()
	if d.isRefusing() {
		d.tasks.compact.Kick() // time alone may have made garbage
		if !d.waiting {
			d.tasks.rest.Kick() // who is refused and tries again leaves no rest
		}
	}
	return nil
}

// worthTryingLocked reports whether work that found no disk space may find some now, as more is
// free than then. A flush is also tried again after some polls, if enough seems to be free, or
// nobody knows how much, as under a quota.
func (d *diskSpace) worthTryingLocked(free int64) bool {
	d.tried++
	switch {
	// Other programs make free space go up and down a little. That is not worth a try.
	case free > d.then+policy.RetryGrownBytes:
		return true
	case !errs.IsFull(d.lifetime.flushError()):
		return false
	}
	// Under a quota, the free space that the system reports says nothing: only a try tells. It is
	// made for the sake of a flush, as writers wait for that.
	return d.tried >= policy.RetryPolls && (free < 0 || free > runBytes(d.views.Current()))
}

// markWaiting is called by work that has found no disk space and has removed its partial files. It
// makes the timer look for space.
func (d *diskSpace) markWaiting() {
	d.mu.Lock()
	d.waiting, d.tried, d.then = true, 0, d.files.FreeBytes()
	d.measureLocked()
	d.mu.Unlock()
	// Committers in admitPayload may wait for this work. They look again, and are refused if
	// nothing else may help.
	d.views.WakeWatchers()
}

// refuseCommit counts a commit that is refused for this reason if that is a full disk, tells
// OnSpace of the first one, and returns the reason.
func (d *diskSpace) refuseCommit(reason error) error {
	if !errs.IsFull(reason) {
		return reason
	}
	d.count.refusedCommits.Add(1)
	d.refused.Store(time.Now().UnixNano())
	d.tasks.poll.Arm() // it starts the work at rest
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.told && d.isFull() { // there may be space by now
		d.told = true
		d.cfg.OnSpace(report.DiskSpace{Full: true, Left: d.left.Load(), Reserve: d.reserve.Load(), Err: reason})
	}
	return reason
}

// exceedsRoom reports whether a payload would use the reserve, by its bytes in the journal and by those
// that are kept for its flush. It measures if the payload is large beside what was left.
func (d *diskSpace) exceedsRoom(payload []byte) bool {
	needs := 2 * int64(len(payload))
	if needs <= d.credit.Load() {
		return false
	}
	d.measureSpace()
	left := d.left.Load()
	return left >= 0 && left-needs < d.reserve.Load()
}

// admitPayload decides on a payload while no more than the reserve is left, or would be left behind
// it. A payload of deletes may use the reserve. Any other waits for a flush that may free disk space, and up to
// policy.DiskPatience for other work under way. Without such work it is refused at once.
func (d *diskSpace) admitPayload(ctx context.Context, payload []byte) error {
	begin := time.Now()
	for d.onlyReserve.Load() || d.exceedsRoom(payload) {
		// Get the channel before the look: a change after the look then closes it.
		v, changed := d.views.WatchView()
		var refusal error
		if needs, ok := onlyFrees(payload); !ok {
			refusal = fmt.Errorf("%w: %d bytes are left on the disk or below DiskLimit for a commit of %d, %d are kept for deletes", errs.ErrNoSpace, d.left.Load(), len(payload), d.reserve.Load())
		} else if d.left.Load() > flushBytes(v)+needs {
			// A delete frees nothing before its flush. So it must leave enough for the flushes of
			// all that is in memory.
			return nil
		}
		switch {
		case d.views.Closed():
			return errs.ErrClosed
		// No flush will free space soon, so the wait could last for ever.
		case d.lifetime.stopReason() != nil || d.lifetime.flushError() != nil:
			return d.refuseCommit(refusal)
		// A flush makes the reserve smaller. A disk with enough space must not refuse sets only
		// because they came fast.
		case len(v.Tables) > 1 || d.flushHelps(v):
			d.tasks.flush.Kick()
		// The flusher drops the history of the change feed. Its files go once their last reader has.
		case (!v.Layout.Feed().Empty() || time.Now().UnixNano()-d.dropped.Load() <= int64(policy.DiskPatience)) && time.Since(begin) <= policy.DiskPatience:
			d.tasks.flush.Kick()
		// Other work may take minutes. Its space may also not be enough: better an error than a
		// wait.
		case d.promised.Load() == 0 || time.Since(begin) > policy.DiskPatience:
			return d.refuseCommit(refusal)
		}
		if err := waitFor(ctx, policy.DiskPoll, changed); err != nil {
			return err
		}
		// The edit that has woken this frees disk space only once its files are removed.
		d.views.ReclaimViews()
		// No write measures while all wait, and other programs may have freed space.
		d.measureSpace()
	}
	return nil
}

// onlyFrees reports whether payload, which is encoded records, has no set, and how many bytes its
// deletes may take in files. It returns false for a nil payload, of which nothing is known.
func onlyFrees(payload []byte) (needs int64, ok bool) {
	if payload == nil {
		return 0, false
	}
	needs = int64(len(payload))
	for len(payload) > 0 {
		if k := entry.KindOf(payload); k == entry.Set || k == entry.SetLatest {
			return 0, false
		}
		size, _ := entry.RawSize(payload)
		payload = payload[size:]
		needs += deleteBytes
	}
	return needs, true
}

// deleteBytes is about what a delete takes in a run, beside its key.
const deleteBytes = 24

// judgeFailure decides what follows from an error of background work. Work that the system has
// refused is run again by the pool. Work that found the disk full waits for space. Any other error
// ends background work: reads go on, and writers get the error once memory is full.
func (d *diskSpace) judgeFailure(ctx context.Context, err error) {
	switch {
	// Nothing is wrong with the store: its files and the layout are as before.
	case ctx.Err() != nil || d.views.Closed() || errs.IsRefused(err):
	case errs.IsFull(err):
		d.markWaiting()
	default:
		d.lifetime.endBackground(err)
	}
}
