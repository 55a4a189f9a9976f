package engine

import (
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// In a keyspace that keeps all versions, a look passes few of a key that has many: the commits of
// all others wait for it. One that keeps fewer is looked at in full.
func TestALookPassesFewVersions(t *testing.T) {
	key, versions := []byte("\x00k"), entry.Version(5*policy.SampleMostLooks)
	for _, c := range []struct{ keeps, looks int }{{0, 1}, {10, 10}, {1 << 30, policy.SampleMostLooks}} {
		views := view.NewSet(nil, nil, layout.New())
		table := view.NewTable(1, 1<<20, 0)
		views.Install(func(v *view.View) { v.Layout, v.Tables = layout.New(), []*view.Table{table} })
		for v := range versions {
			if err := table.Add(&entry.Entry{Key: key, Version: v + 1, Kind: entry.Set}); err != nil {
				t.Fatal(err)
			}
		}
		o := policy.Options{Retention: policy.Retention{Versions: c.keeps}}
		s := &sampler{state: &state{cfg: &Config{Policy: o}, views: views}, leader: views.NewLeader(), looks: 1}
		s.budget = &budget{state: s.state}
		s.sampleRecord(&entry.Record{Key: key, Version: versions + 1, Kind: entry.Set, Size: 64 << 10}, 32<<10)
		if s.looks != int64(c.looks) {
			t.Errorf("a set where %d versions are kept: %d looks, want %d", c.keeps, s.looks, c.looks)
		}
	}
}
