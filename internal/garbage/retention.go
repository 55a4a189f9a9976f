package garbage

import (
	"math"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// Retention decides which old versions stay.
type Retention struct {
	Views *view.Set
	Now   func() time.Time

	// Of the default keyspace:
	Versions int           // keep the N newest versions; 0 means 1
	Age      time.Duration // keep what was visible at some time within this age
}

// Rules returns what a flush or compaction that begins now may drop.
func (t *Retention) Rules(bottom bool) compact.Rules {
	now := t.Now().UnixMilli()
	l := t.Views.Current().Layout
	visible := t.Views.Visible()
	watermark := func(age time.Duration) entry.Version {
		if age <= 0 {
			return visible
		}
		// Of the millisecond itself only the last version is known, and others were visible in it.
		return min(visible, l.VersionAt(now-age.Milliseconds()-1))
	}
	r := compact.Rules{
		Watermark: watermark(t.Age),
		Versions:  t.Versions,
		Bottom:    bottom,
		Now:       uint64(max(now, 0)),
		Keyspaces: make(map[entry.KeyspaceID]compact.History),
		Dropped:   l.Dropped,
	}
	floors := []layout.KeyspaceFloor{{ID: entry.DefaultKeyspace, Version: r.Watermark}}
	for _, k := range l.Keyspaces() {
		h := compact.History{Watermark: watermark(k.Options.Age), Versions: int(min(k.Options.Versions, math.MaxInt32))}
		floors = append(floors, layout.KeyspaceFloor{ID: k.ID, Version: h.Watermark})
		r.Keyspaces[k.ID] = h
	}
	// From now on, readers that ask for an older version get ErrVersionGone. A reader that
	// asked before has pinned a View with that version: later Views may drop it.
	t.Views.Floors.Raise(floors...)
	r.Checked = t.Views.Oldest(visible)
	return r
}
