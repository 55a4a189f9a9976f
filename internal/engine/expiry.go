package engine

import (
	"time"

	"github.com/brockdb/brock/internal/lsm/policy"
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
	if st.views.Closed() || st.lifetime.stopReason() != nil {
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
	v := st.views.Current()
	due := policy.ExpiryDue(v.Layout, policy.State{Idle: idle}, st.cfg.Policy)
	// Of the memtables only the active one counts: sealed ones are about to be flushed.
	due = policy.EarlierTime(due, policy.MemtableExpiryDue(v.Active().LeastExpiry.Load(), idle))
	for _, r := range v.Runs {
		due = policy.EarlierTime(due, st.cfg.Policy.NextDead(v.Layout, r.Replaced, st.cfg.unixMilli()))
	}
	return due
}
