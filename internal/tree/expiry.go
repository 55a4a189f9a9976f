package tree

import (
	"context"
	"time"

	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// What has expired is invisible at once. It leaves the files when an alarm rings
// that is set for the time at which policy thinks that worth it: as promised if
// the store rests by then, later while clients write, since their writes bring
// merges anyway. Where nothing expires no alarm is set.

// idle reports whether writers have been silent for so long that what is left
// is being folded down, or was.
func (t *Tree) idle() bool { return !t.work.idle.Armed() }

// awaitExpiry sets the alarm for what is to be done next because of expiry.
// Whatever changes the answer calls it: an edit, and the beginning of a rest.
func (t *Tree) awaitExpiry() {
	due := t.expiryDue(t.idle())
	if due == 0 {
		t.work.expiry.Stop()
		due = t.expiryDue(t.idle()) // what was added meanwhile may have set it before
	}
	if due != 0 {
		t.setAlarm(due)
	}
}

// awaitTable is awaitExpiry for an entry that is added: it looks at nothing else.
func (t *Tree) awaitTable(m *view.Table) {
	t.setAlarm(policy.MemtableExpiryDue(m.LeastExpiry.Load(), false))
}

// leastAlarm is a wait that fits into what Expiring.Late leaves of the promise,
// but keeps work that fails again and again from being all there is.
const leastAlarm = 5 * time.Second

func (t *Tree) setAlarm(due uint64) {
	if t.cfg.ReadOnly || t.views.Closed() || t.work.expiry == nil || t.failed() != nil {
		return
	}
	wait := leastAlarm
	if now := t.unixMilli(); due > now {
		// An hour is enough: whoever is woken looks.
		wait = max(wait, time.Duration(min(due-now, uint64(time.Hour/time.Millisecond)))*time.Millisecond)
	}
	t.work.expiry.Set(wait)
}

// expiryDue is when something is to be done because of expiry, in Unix
// milliseconds; 0 = never.
func (t *Tree) expiryDue(idle bool) uint64 {
	v := t.views.Current()
	due := policy.ExpiryDue(v.Layout, idle)
	if at := tableExpiryDue(v.Active(), idle); at != 0 && (due == 0 || at < due) {
		due = at
	}
	return due
}

// tableExpiryDue is when a memtable is to be flushed because of expiry; 0 = never.
func tableExpiryDue(m *view.Table, idle bool) uint64 {
	least := m.LeastExpiry.Load()
	if least == 0 {
		return 0
	}
	return policy.MemtableExpiryDue(least, idle)
}

// expiryWait is how long it is until the alarm of expiry rings, above 0; 0 if it
// is not set, as in a store where nothing expires.
func (t *Tree) expiryWait() time.Duration {
	left, set := t.work.expiry.Left()
	if !set {
		return 0
	}
	return max(left, 1)
}

// runExpire does what is due. At rest it goes on to collect what that frees;
// while clients write, that comes with their next rest.
func (t *Tree) runExpire(ctx context.Context) error {
	if t.failed() != nil {
		return nil // it would fail again, and was reported
	}
	idle := t.idle()
	defer t.awaitExpiry()
	if due := t.expiryDue(idle); due == 0 || due > t.unixMilli() {
		return nil
	}
	if at := tableExpiryDue(t.views.Current().Active(), idle); at != 0 && at <= t.unixMilli() {
		if err := t.cfg.Exclusive(t.sealIfAny); err != nil {
			return err
		}
	}
	if idle {
		return t.runSettle(ctx)
	}
	if err := t.runFlush(ctx); err != nil {
		return err
	}
	return t.runMerge(ctx, false)
}
