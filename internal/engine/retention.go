package engine

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
)

// retentionRules returns what a flush or compaction that begins now may drop.
func (st *state) retentionRules(bottom bool) compact.Rules {
	now := st.cfg.Now().UnixMilli()
	l := st.views.Current().Layout
	visible := st.views.Visible()
	history := func(id entry.KeyspaceID, floor entry.Version) compact.History {
		r, _ := st.cfg.Policy.RetentionOf(l, id)
		oldest := visible
		if r.Manual {
			oldest = st.views.Floors.Of(id)
		} else if r.Age > 0 {
			// Of the millisecond itself only the last version is known, and others were visible in
			// it.
			oldest = min(visible, l.VersionAt(now-r.Age.Milliseconds()-1))
		}
		return compact.History{Watermark: oldest, Floor: floor, Versions: r.Versions}
	}
	r := compact.Rules{
		History:   history(entry.DefaultKeyspace, l.Floor()),
		Bottom:    bottom,
		Now:       uint64(max(now, 0)),
		Keyspaces: make(map[entry.KeyspaceID]compact.History),
		Dropped:   l.Dropped,
	}
	floors := []layout.KeyspaceFloor{{ID: entry.DefaultKeyspace, Version: r.Watermark}}
	for _, k := range l.Keyspaces() {
		h := history(k.ID, k.Floor())
		floors = append(floors, layout.KeyspaceFloor{ID: k.ID, Version: h.Watermark})
		r.Keyspaces[k.ID] = h
	}
	// From now on, readers that ask for an older version get ErrVersionGone. A reader that
	// asked before has pinned a View with that version: later Views may drop it.
	st.views.Floors.Raise(floors...)
	// visible was loaded before: readers that begin later need nothing older than that.
	r.Checked = st.views.OldestVersion(visible)
	return r
}
