package tree

import (
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// planner asks policy which compaction or collection to do next.
type planner struct {
	cfg     *Config
	damaged *garbage.Damaged
	disk    *diskSpace
}

// decide returns the plan for a View. ask, unless nil, adds to the state why the plan is
// asked for, for instance that the store is idle.
func (p *planner) decide(v *view.View, ask func(*policy.State)) policy.Plan {
	s := garbage.StateOf(v, p.damaged)
	s.DiskSpace, s.Dropped, s.Now = p.disk.available(), garbage.DroppedIn(v), p.cfg.unixMilli()
	if ask != nil {
		ask(&s)
	}
	return policy.Decide(v.Layout, s, p.cfg.Policy)
}
