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
	byKeyspace map[entry.KeyspaceID]entry.Version // floors by keyspace
	shared     bool                               // a reader has the map: copy it before a change
}

// init sets all floors to those of a layout.
func (f *Floors) init(layout *layout.Layout) {
	f.byKeyspace = map[entry.KeyspaceID]entry.Version{entry.DefaultKeyspace: layout.Floor()}
	for _, k := range layout.Keyspaces() {
		f.byKeyspace[k.ID] = k.Floor()
	}
	f.boundLocked()
}

// Least is the version below which the history of all keyspaces may be gone.
func (f *Floors) Least() entry.Version { return entry.Version(f.lowest.Load()) }

// most is the version from which on all keyspaces have their whole history.
func (f *Floors) most() entry.Version { return entry.Version(f.highest.Load()) }

// all returns the current floors and the least of them. The caller must not change
// the map; later changes are made in a copy.
func (f *Floors) all() (of map[entry.KeyspaceID]entry.Version, least entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shared = true
	return f.byKeyspace, f.Least()
}

// ownLocked copies the map before a change, if a reader has it.
func (f *Floors) ownLocked() {
	if f.shared {
		f.byKeyspace, f.shared = maps.Clone(f.byKeyspace), false
	}
}

// Raise raises floors; dropped keyspaces are left out. Raise all floors in one
// call: each call walks all floors once.
func (f *Floors) Raise(to ...layout.KeyspaceFloor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownLocked()
	for _, k := range to {
		// Never down: a reader may have been refused at this version already.
		if at, found := f.byKeyspace[k.ID]; found && at < k.Version {
			f.byKeyspace[k.ID] = k.Version
		}
	}
	f.boundLocked()
}

// Add sets the first floor of a new keyspace.
func (f *Floors) Add(id entry.KeyspaceID, at entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownLocked()
	f.byKeyspace[id] = at
	// No walk over all floors: a new one can only widen the bounds.
	f.lowest.Store(min(f.lowest.Load(), uint64(at)))
	f.highest.Store(max(f.highest.Load(), uint64(at)))
}

// Follow replaces all floors by those of a newer layout, which another process has
// written. Call it before the layout's View is installed.
func (f *Floors) Follow(l *layout.Layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.init(l)
	f.shared = false
}

// Remove removes the floor of a dropped keyspace.
func (f *Floors) Remove(id entry.KeyspaceID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownLocked()
	delete(f.byKeyspace, id)
	f.boundLocked()
}

// boundLocked sets the lowest and the highest floor.
func (f *Floors) boundLocked() {
	lowest := f.byKeyspace[entry.DefaultKeyspace]
	highest := lowest
	for _, at := range f.byKeyspace {
		lowest, highest = min(lowest, at), max(highest, at)
	}
	f.lowest.Store(uint64(lowest))
	f.highest.Store(uint64(highest))
}

// Record adds the floors that have risen since l to an edit, so that they survive a restart.
func (f *Floors) Record(edit *layout.Edit, l *layout.Layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit.Floor = max(edit.Floor, f.byKeyspace[entry.DefaultKeyspace])
	for _, k := range l.Keyspaces() {
		if at := f.byKeyspace[k.ID]; at > k.Floor() {
			edit.KeyspaceFloors = append(edit.KeyspaceFloors, layout.KeyspaceFloor{ID: k.ID, Version: at})
		}
	}
}
