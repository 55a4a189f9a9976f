package engine

import (
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// planner asks policy which compaction or collection to do next.
type planner struct {
	*state
	disk *diskSpace
}

// planWork returns the plan for a View. ask, unless nil, adds to the state why the plan is
// asked for, for instance that the store is idle.
func (p *planner) planWork(v *view.View, ask func(*policy.State)) policy.Plan {
	s := stateOf(v, &p.damaged, &p.cfg.Policy, p.cfg.unixMilli())
	s.DiskSpace, s.Full, s.Dropped = p.disk.available(), p.disk.onlyReserve.Load(), v.Dropped()
	if ask != nil {
		ask(&s)
	}
	return policy.Decide(v.Layout, s, p.cfg.Policy)
}
