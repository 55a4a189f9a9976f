package tree

import (
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// planner asks policy what is to be done.
type planner struct {
	cfg     *Config
	damaged *damaged
	disk    *diskSpace
}

// decide returns the plan for a View. ask, unless nil, adds to the state on which
// occasion that is.
func (p *planner) decide(v *view.View, ask func(*policy.State)) policy.Plan {
	s := stateOf(v, p.damaged)
	s.DiskSpace, s.Dropped, s.Now = p.disk.available(), droppedIn(v), p.cfg.unixMilli()
	if ask != nil {
		ask(&s)
	}
	return policy.Decide(v.Layout, s, p.cfg.Policy)
}
