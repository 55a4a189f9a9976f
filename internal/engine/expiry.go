package engine

import (
	"time"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// expiry sets the alarm for expired entries. Readers don't see an expired entry, but it stays
// in the files until the alarm rings, at the time that policy chooses: sooner at rest, later
// while clients write, as their writes cause compactions anyway. If nothing expires, no alarm is
// set.
type expiry struct {
	*state
}

// isIdle reports whether writers have been silent for so long that idle compaction has begun.
func (x *expiry) isIdle() bool { return !x.tasks.idle.Armed() }

// setAlarm sets the alarm for the next work because of expiry. Call it after each change of the
// time: an edit, and the beginning of a rest.
func (x *expiry) setAlarm() {
	due := x.nextDue(x.isIdle())
	if due == 0 {
		x.tasks.expiry.Stop()
		due = x.nextDue(x.isIdle()) // an entry added meanwhile may have set the alarm before Stop
	}
	if due != 0 {
		x.setAlarmAt(due)
	}
}

// setAlarmFor is setAlarm after an entry was added to the memtable m. It looks at nothing else.
func (x *expiry) setAlarmFor(m *view.Table) {
	x.setAlarmAt(policy.MemtableExpiryDue(m.LeastExpiry.Load(), false))
}

func (x *expiry) setAlarmAt(due uint64) {
	if x.cfg.ReadOnly || x.views.Closed() || x.tasks.expiry == nil || x.lifetime.failed() != nil {
		return
	}
	wait := policy.ExpiryLeastWait
	if now := x.cfg.unixMilli(); due > now {
		// At most an hour ahead: the task finds out by itself whether anything is due.
		wait = max(wait, time.Duration(min(due-now, uint64(time.Hour/time.Millisecond)))*time.Millisecond)
	}
	x.tasks.expiry.Set(wait)
}

// nextDue returns when work because of expiry is due, in Unix milliseconds; 0 = never.
func (x *expiry) nextDue(idle bool) uint64 {
	v := x.views.Current()
	due := policy.ExpiryDue(v.Layout, policy.State{Idle: idle}, x.cfg.Policy)
	for _, at := range []uint64{tableExpiryDue(v.Active(), idle), nextDead(v, &x.cfg.Policy, x.cfg.unixMilli())} {
		if at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	return due
}

// nextDead returns the first time after now at which more of what runs of v have replaced in others
// is dead, in Unix milliseconds; 0 = never.
func nextDead(v *view.View, o *policy.Options, now uint64) (next uint64) {
	for _, r := range v.Runs {
		if at := o.NextDead(v.Layout, r.Replaced, now); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// tableExpiryDue returns when a memtable is to be flushed because of expiry, in Unix
// milliseconds; 0 = never.
func tableExpiryDue(m *view.Table, idle bool) uint64 {
	least := m.LeastExpiry.Load()
	if least == 0 {
		return 0
	}
	return policy.MemtableExpiryDue(least, idle)
}

// timeLeft returns the time until the alarm rings, which is above 0; 0 if no alarm is set.
func (x *expiry) timeLeft() time.Duration {
	left, set := x.tasks.expiry.Left()
	if !set {
		return 0
	}
	return max(left, 1)
}
