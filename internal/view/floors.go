package view

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// Floors has, for each keyspace, the version below which history may be gone: its oldest readable
// version. Floors only rise. A floor rises before a View is installed that lacks anything below it.
// So a reader that first takes a View and then finds the floor at or below its version has its
// whole history in that View.
type Floors struct {
	lowest     atomic.Uint64                      // least of all floors
	highest    atomic.Uint64                      // greatest of all floors
	mu         sync.Mutex                         // guards:
	byKeyspace map[entry.KeyspaceID]entry.Version // floors by keyspace; once it is lent, only replaced
	lent       bool                               // readers have the map
}

// FollowLayout makes the keyspaces those of a layout, the first one or a newer one. Their floors
// are those of the layout, or what they have risen to since. Call it before the layout's View is
// installed: a reader that sees a keyspace needs its floor.
func (f *Floors) FollowLayout(l *layout.Layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A new map: readers may have the one before.
	floors := make(map[entry.KeyspaceID]entry.Version, len(l.Keyspaces())+1)
	floors[entry.DefaultKeyspace] = max(l.Floor(), f.byKeyspace[entry.DefaultKeyspace])
	for _, k := range l.Keyspaces() {
		floors[k.ID] = max(k.Floor(), f.byKeyspace[k.ID])
	}
	f.replaceLocked(floors)
}

// AddKeyspace adds a keyspace that was made, in time that doesn't depend on how many there are, unless
// a reader has the floors. Call it before the layout's View is installed, as FollowLayout.
func (f *Floors) AddKeyspace(k layout.KeyspaceFloor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lent {
		f.byKeyspace, f.lent = maps.Clone(f.byKeyspace), false
	}
	f.byKeyspace[k.ID] = k.Version
	f.lowest.Store(min(f.lowest.Load(), uint64(k.Version)))
	f.highest.Store(max(f.highest.Load(), uint64(k.Version)))
}

// LowestFloor is the version below which the history of all keyspaces may be gone.
func (f *Floors) LowestFloor() entry.Version { return entry.Version(f.lowest.Load()) }

// Of is the floor of a keyspace.
func (f *Floors) Of(id entry.KeyspaceID) entry.Version {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKeyspace[id]
}

// highestFloor is the version from which on all keyspaces have their whole history.
func (f *Floors) highestFloor() entry.Version { return entry.Version(f.highest.Load()) }

// all returns the current floors and the least of them. The caller must not change the map.
func (f *Floors) all() (of map[entry.KeyspaceID]entry.Version, least entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lent = true
	return f.byKeyspace, f.LowestFloor()
}

// Raise raises floors; dropped keyspaces are left out. Raise all floors in one
// call: each call walks all floors once.
func (f *Floors) Raise(to ...layout.KeyspaceFloor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	floors := maps.Clone(f.byKeyspace)
	for _, k := range to {
		// Never down: a reader may have been refused at this version already.
		if at, found := floors[k.ID]; found && at < k.Version {
			floors[k.ID] = k.Version
		}
	}
	f.replaceLocked(floors)
}

// replaceLocked makes the floors others, and sets the lowest and the highest.
func (f *Floors) replaceLocked(floors map[entry.KeyspaceID]entry.Version) {
	lowest := floors[entry.DefaultKeyspace]
	highest := lowest
	for _, at := range floors {
		lowest, highest = min(lowest, at), max(highest, at)
	}
	f.byKeyspace, f.lent = floors, false
	f.lowest.Store(uint64(lowest))
	f.highest.Store(uint64(highest))
}

// Record adds the floors that have risen since l to an edit, so that they survive a restart, but none
// above most.
func (f *Floors) Record(edit *layout.Edit, l *layout.Layout, most entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit.Floor = max(edit.Floor, l.Floor(), min(f.byKeyspace[entry.DefaultKeyspace], most))
	for _, k := range l.Keyspaces() {
		if at := min(f.byKeyspace[k.ID], most); at > k.Floor() {
			edit.KeyspaceFloors = append(edit.KeyspaceFloors, layout.KeyspaceFloor{ID: k.ID, Version: at})
		}
	}
}
