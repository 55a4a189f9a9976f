package tree

import (
	"math"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/view"
)

// retention decides which old versions stay.
type retention struct {
	views    *view.Set
	defaults Retention // of the default keyspace
	now      func() time.Time
}

// rules are what a flush or compaction that begins now may drop.
func (t *retention) rules(bottom bool) compact.Rules {
	now := t.now().UnixMilli()
	layout := t.views.Current().Layout
	visible := t.views.Visible()
	watermark := func(age time.Duration) entry.Version {
		if age <= 0 {
			return visible
		}
		return min(visible, layout.VersionAt(now-age.Milliseconds()))
	}
	r := compact.Rules{
		Watermark: watermark(t.defaults.Age),
		Versions:  t.defaults.Versions,
		Bottom:    bottom,
		Now:       uint64(max(now, 0)),
		Keyspaces: make(map[entry.KeyspaceID]compact.History),
		Dropped:   layout.Dropped,
	}
	// From now on, a reader who asks for an older version is told that it is gone.
	// One who asked before holds a View that has it, whatever later ones drop.
	t.views.Floors.Raise(entry.DefaultKeyspace, r.Watermark)
	for _, k := range layout.Keyspaces() {
		h := compact.History{Watermark: watermark(k.Options.Age), Versions: int(min(k.Options.Versions, math.MaxInt32))}
		t.views.Floors.Raise(k.ID, h.Watermark)
		r.Keyspaces[k.ID] = h
	}
	r.Checked = t.views.Oldest(visible)
	return r
}
