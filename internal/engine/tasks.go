package engine

import "github.com/brockdb/brock/internal/base/jobs"

// tasks has all background tasks. A task finds its work in the store's state by itself, and
// runs until it finds none. So code that changes the state kicks all tasks, and need not know
// which of them has work now. Each edit kicks them (state.followEdit), the writer after each
// memtable that it seals. The fields are nil until Open has made the tasks.
type tasks struct {
	readOnly bool // then there is no background work

	flush   *jobs.Task
	compact *jobs.Task
	collect *jobs.Task
	seal    *jobs.Task  // seals the memtable, so that it is flushed
	rekey   *jobs.Task  // removes old data keys; nil: the store is plain
	idle    *jobs.Alarm // idle compaction, once writers are silent
	scrub   *jobs.Alarm // rings when files are to be verified
	expiry  *jobs.Alarm // rings when expired entries should be removed from the files
	poll    *jobs.Alarm // checks whether a full disk has room again
}

// kick starts all tasks that may have work after a change of the state.
func (t *tasks) kick() {
	if t.readOnly {
		return
	}
	t.flush.Kick()
	t.compact.Kick()
	t.collect.Kick()
	if t.rekey != nil {
		t.rekey.Kick()
	}
	// Each change puts the work at rest off, as the store is not at rest.
	t.idle.Touch()
}
