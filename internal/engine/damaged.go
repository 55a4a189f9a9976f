package engine

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// damagedFiles knows the segments, and the files of runs, that can't be read as a whole. They stay
// as they are, so that nothing more of them gets lost.
type damagedFiles struct {
	mu   sync.Mutex
	nums []entry.FileNum // add replaces the slice and never changes it: list returns it
}

// add notes one more damaged file.
func (d *damagedFiles) add(num entry.FileNum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nums = append(slices.Clone(d.nums), num)
}

// list returns the numbers of the damaged files. The caller must not change the slice.
func (d *damagedFiles) list() []entry.FileNum {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nums
}

// stateOf returns the part of policy.State that follows from v, from the damage that was found and
// from the time, in Unix milliseconds.
func stateOf(v *view.View, d *damagedFiles, o *policy.Options, now uint64) policy.State {
	s := policy.State{Sealed: len(v.Tables) - 1, Now: now, Damaged: d.list(), Hidden: make(map[layout.RunID]uint64)}
	for _, m := range v.Tables {
		s.Memtables.Values += uint64(m.SeparatedBytes.Load())
		for _, r := range []*view.Replaced{&m.Replaced, &m.Outdated} {
			dead := o.Dead(v.Layout, r.List(), now)
			s.Memtables.Older += dead.Separated
		}
	}
	for _, r := range v.Runs {
		if r.Replaced != nil {
			s.Hidden[r.ID] = o.Dead(v.Layout, r.Replaced, now).Separated
		}
		if !r.RangeDeletes().Empty() {
			if s.Ranged == nil {
				s.Ranged = make(map[layout.RunID]uint64)
			}
			s.Ranged[r.ID] = uint64(r.Ranged)
		}
	}
	return s
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
