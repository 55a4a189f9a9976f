package policy

import (
	"math"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// One account says what is live, retained or dead. Whoever finds that an entry was replaced counts
// it as layout.Superseded: compactions and flushes exactly, for what stays in their run; writes by
// samples, for what they replace elsewhere. Here is the only rule for how long it stays. All else
// that frees space, sets alarms or reports reads the account by this rule.

// Retention says which history of a keyspace stays: its N newest versions of each key, and what was
// visible at some time within an age or, if it is manual, at its floor or later.
type Retention struct {
	Versions int // 0 means 1
	Age      time.Duration
	Manual   bool
}

// RetentionOf returns what a keyspace retains; dropped says that it is gone, with all that it had.
func (o *Options) RetentionOf(l *layout.Layout, id entry.KeyspaceID) (r Retention, dropped bool) {
	if k := l.Keyspace(id); k != nil {
		return retentionOf(k), false
	}
	if l.Dropped(id) {
		return r, true
	}
	return o.Retention, false
}

func retentionOf(k *layout.Keyspace) Retention {
	return Retention{int(min(k.Options.Versions, math.MaxInt32)), k.Options.Age, k.Options.Manual}
}

// longestRetention is what all keyspaces together retain at most.
func (o *Options) longestRetention(l *layout.Layout) Retention {
	most, list := o.Retention, l.Keyspaces()
	for i := range list {
		r := retentionOf(&list[i])
		most.Versions, most.Age = max(most.Versions, r.Versions), max(most.Age, r.Age)
		most.Manual = most.Manual || r.Manual
	}
	return most
}

// manualFloor is the version at or below which a newer version must be, so that what it replaces is
// dead in a keyspace with manual retention.
func (o *Options) manualFloor(l *layout.Layout, id entry.KeyspaceID) entry.Version {
	if k := l.Keyspace(id); k != nil {
		return k.Floor()
	}
	least := l.Floor()
	if id != layout.AnyKeyspace {
		return least
	}
	if !o.Retention.Manual {
		least = entry.MaxVersion
	}
	for _, k := range l.Keyspaces() {
		if k.Options.Manual {
			least = min(least, k.Floor())
		}
	}
	return least
}

// deadAt returns when what s counts is dead, in Unix milliseconds; 0 = not as things are. age is
// that of the retention. What is left of dropped keyspaces is counted as a whole (State.Dropped),
// not here.
func (o *Options) deadAt(l *layout.Layout, s *layout.Superseded) (at uint64, age time.Duration) {
	r, dropped := o.RetentionOf(l, s.Keyspace)
	// Steps of many keyspaces were put together: what any of them retains stays.
	if s.Keyspace == layout.AnyKeyspace {
		r, dropped = o.longestRetention(l), false
	}
	if dropped || s.Keep != 0 && s.Keep <= uint64(max(r.Versions, 1)) {
		return 0, 0
	}
	// It goes once it is given up.
	if r.Manual && s.Version > o.manualFloor(l, s.Keyspace) {
		return 0, 0
	}
	// Only newer versions keep it, and there are enough of these: it is dead since ever.
	if r.Age <= 0 {
		return 1, 0
	}
	ages, known := l.AgesAt(s.Version, r.Age)
	// No sample of the clock is as new as the version: ask again after the next edit.
	if !known {
		return 0, 0
	}
	return uint64(max(ages, 1)), r.Age
}

// Dead sums up what is dead of a list at a time, in Unix milliseconds.
func (o *Options) Dead(l *layout.Layout, list []layout.Superseded, now uint64) (sum layout.Superseded) {
	for i := range list {
		if at, _ := o.deadAt(l, &list[i]); at != 0 && at <= now {
			sum.Add(&list[i])
		}
	}
	return sum
}

// NextDead returns the first time after now at which more of a list is dead; 0 = never.
func (o *Options) NextDead(l *layout.Layout, list []layout.Superseded, now uint64) (next uint64) {
	for i := range list {
		if at, _ := o.deadAt(l, &list[i]); at > now {
			next = EarlierTime(next, at)
		}
	}
	return next
}

// agingSteps returns the steps in which history of a run dies, as if it expired then. It may stay
// for a share of its age beyond that, so that a run is rewritten some dozen times within the age at
// most.
func (o *Options) agingSteps(l *layout.Layout, r *layout.Run) (steps []entry.Expiring) {
	list := r.Superseded
	if list == nil && o.longestRetention(l).Age > 0 {
		// An earlier release has not counted it. A compaction does, once all of it has aged.
		list = []layout.Superseded{{Keyspace: layout.AnyKeyspace, Version: r.MaxVersion}}
	}
	for i := range list {
		s := &list[i]
		if at, age := o.deadAt(l, s); at != 0 {
			late := uint64(age.Milliseconds()) / agedLateFraction
			steps = append(steps, entry.Expiring{At: at, Late: late, Entries: s.Entries, Bytes: s.Bytes + s.Separated})
		}
	}
	return steps
}
