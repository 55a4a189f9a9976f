package tree

import (
	"context"
	"time"

	"github.com/brockdb/brock/internal/policy"
)

// What has expired is invisible at once, and leaves the files when an alarm
// rings that is set for the time at which policy thinks that worth it. Where
// nothing expires no alarm is set.

// expires notes that an entry of the memtable expires at this time; it reports
// whether none did before. Only whoever adds entries calls it.
func (m *table) expires(at uint64) (earlier bool) {
	least := m.leastExpiry.Load()
	if least != 0 && least <= at {
		return false
	}
	m.leastExpiry.Store(at)
	return true
}

// awaitExpiry sets the alarm for what is to be done next because of expiry.
func (t *Tree) awaitExpiry() {
	if t.cfg.ReadOnly || t.closed.Load() || t.work.expiry == nil {
		return
	}
	due := t.expiryDue()
	if due == 0 {
		return
	}
	// At least a second, whatever the clock says: what is due is being done.
	left := max(int64(min(due, 1<<62))-t.now().UnixMilli(), 1000)
	t.work.expiry.Set(time.Duration(min(left, int64(time.Hour/time.Millisecond))) * time.Millisecond)
}

// expiryDue is when something is to be done because of expiry, in Unix
// milliseconds; 0 = never.
func (t *Tree) expiryDue() uint64 {
	v := t.views.current.Load()
	due := policy.ExpiryDue(v.layout)
	for _, m := range v.tables {
		if least := m.leastExpiry.Load(); least != 0 {
			if at := policy.MemtableExpiryDue(least); due == 0 || at < due {
				due = at
			}
		}
	}
	return due
}

// AwaitsExpiry is how long it is until the alarm of expiry rings; false if it is
// not set, as in a store where nothing expires.
func (t *Tree) AwaitsExpiry() (time.Duration, bool) { return t.work.expiry.Left() }

// runExpire does what is due. What it frees is collected once writers are silent.
func (t *Tree) runExpire(ctx context.Context) error {
	if t.failed() != nil {
		return nil // it would fail again, and was reported
	}
	defer t.awaitExpiry()
	now := uint64(max(t.now().UnixMilli(), 0))
	active := t.views.current.Load().active()
	if least := active.leastExpiry.Load(); least != 0 && policy.MemtableExpiryDue(least) <= now {
		if err := t.cfg.Exclusive(t.sealIfAny); err != nil {
			return err
		}
		if err := t.runFlush(ctx); err != nil {
			return err
		}
	}
	if due := policy.ExpiryDue(t.layout()); due == 0 || due > now {
		return nil
	}
	if err := t.runMerge(ctx, false); err != nil {
		return err
	}
	t.work.idle.Touch()
	return nil
}
