package engine

import (
	"time"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// One alarm waits for the next expired entries. Readers don't see an expired entry, but it stays
// in the files until the alarm rings, at the time that policy chooses: sooner at rest, later
// while clients write, as their writes cause compactions anyway. If nothing expires, no alarm is
// set.

// isIdle reports whether writers have been silent for so long that idle compaction has begun.
func (st *state) isIdle() bool { return !st.tasks.idle.Armed() }

// setExpiryAlarm sets the alarm for the next work because of expiry. Call it after each change of
// the time: an edit, and the beginning of a rest.
func (st *state) setExpiryAlarm() {
	due := st.nextExpiryDue(st.isIdle())
	if due == 0 {
		st.tasks.expiry.Stop()
		due = st.nextExpiryDue(st.isIdle()) // an entry added meanwhile may have set the alarm before Stop
	}
	if due != 0 {
		st.setExpiryAlarmAt(due)
	}
}

// setExpiryAlarmAt makes the alarm ring at due, in Unix milliseconds, or earlier if that was set.
func (st *state) setExpiryAlarmAt(due uint64) {
	if st.views.Closed() || st.lifetime.stopped() != nil {
		return
	}
	wait := policy.ExpiryLeastWait
	if now := st.cfg.unixMilli(); due > now {
		// At most an hour ahead: the task finds out by itself whether anything is due.
		wait = max(wait, time.Duration(min(due-now, uint64(time.Hour/time.Millisecond)))*time.Millisecond)
	}
	st.tasks.expiry.Set(wait)
}

// nextExpiryDue returns when work because of expiry is due, in Unix milliseconds; 0 = never.
func (st *state) nextExpiryDue(idle bool) uint64 {
	// Of the memtables only the active one counts: sealed ones are about to be flushed.
	v := st.views.Current()
	due := policy.ExpiryDue(v.Layout, policy.State{Idle: idle}, st.cfg.Policy)
	for _, at := range []uint64{memtableExpiryDue(v.Active(), idle), nextDead(v, &st.cfg.Policy, st.cfg.unixMilli())} {
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

// memtableExpiryDue returns when a memtable is to be flushed because of expiry, in Unix
// milliseconds; 0 = never.
func memtableExpiryDue(m *view.Table, idle bool) uint64 {
	least := m.LeastExpiry.Load()
	if least == 0 {
		return 0
	}
	return policy.MemtableExpiryDue(least, idle)
}

// expiryWait returns the time until the alarm rings, at least 1 ns. 0 means that no alarm is set.
func (st *state) expiryWait() time.Duration {
	left, set := st.tasks.expiry.Left()
	if !set {
		return 0
	}
	return max(left, 1)
}
