package tree

import (
	"time"

	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// expiry sets the alarm for what expires. What has expired is invisible at once. It
// leaves the files when the alarm rings, at the time at which policy thinks that
// worth it: as promised if the store rests by then, later while clients write, since
// their writes bring compactions anyway. Where nothing expires no alarm is set.
type expiry struct {
	cfg   *Config
	views *view.Set
	life  *lifetime
	tasks *tasks
}

// idle reports whether writers have been silent for so long that the idle
// compaction is going on, or was done.
func (x *expiry) idle() bool { return !x.tasks.idle.Armed() }

// await sets the alarm for what is to be done next because of expiry. It is called
// after what changes the answer: an edit, and the beginning of a rest.
func (x *expiry) await() {
	due := x.due(x.idle())
	if due == 0 {
		x.tasks.expiry.Stop()
		due = x.due(x.idle()) // what was added meanwhile may have set it before
	}
	if due != 0 {
		x.set(due)
	}
}

// awaitTable is await for an entry that is added: it looks at nothing else.
func (x *expiry) awaitTable(m *view.Table) {
	x.set(policy.MemtableExpiryDue(m.LeastExpiry.Load(), false))
}

func (x *expiry) set(due uint64) {
	if x.cfg.ReadOnly || x.views.Closed() || x.tasks.expiry == nil || x.life.failed() != nil {
		return
	}
	wait := policy.ExpiryLeastWait
	if now := x.cfg.unixMilli(); due > now {
		// An hour is enough: the task looks by itself what is due.
		wait = max(wait, time.Duration(min(due-now, uint64(time.Hour/time.Millisecond)))*time.Millisecond)
	}
	x.tasks.expiry.Set(wait)
}

// due is when something is to be done because of expiry, in Unix milliseconds; 0 =
// never.
func (x *expiry) due(idle bool) uint64 {
	v := x.views.Current()
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

// wait is how long it is until the alarm rings, above 0; 0 if it is not set, as in
// a store where nothing expires.
func (x *expiry) wait() time.Duration {
	left, set := x.tasks.expiry.Left()
	if !set {
		return 0
	}
	return max(left, 1)
}
