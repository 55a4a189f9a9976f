package tree

import "github.com/brockdb/brock/internal/jobs"

// tasks are the background work that there is. What is to be done follows from the
// state: each task looks for it by itself, and goes on as long as it finds something.
// So whatever changes the state kicks all of them, and nobody has to know what follows
// from the change: the installer does so for each edit, the writer for each memtable
// that it seals. There are no tasks before Open has made them.
type tasks struct {
	readOnly bool // then there is no background work

	flush   *jobs.Task
	compact *jobs.Task
	collect *jobs.Task
	seal    *jobs.Task    // seals the memtable, so that it is flushed
	search  *jobs.Task    // looks for what deletes have emptied
	rekey   *jobs.Task    // takes old data keys away; nil: the store is plain
	idle    *jobs.Delayed // idle compaction, once writers are silent
	scrub   *jobs.Alarm   // rings when files are to be verified
	expiry  *jobs.Alarm   // rings when what has expired is to leave the files
	poll    *jobs.Delayed // looks whether a full disk has room again
}

// kick looks for work after a change.
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
	t.idle.Touch()
}
