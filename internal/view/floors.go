package view

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/layout"
)

// Floors are, for each keyspace, the version below which history may be gone.
// They only rise, and a floor rises before a View is installed in which anything
// below it is missing. So a reader who takes a View and then finds the floors at or
// below its version has all of it in that View.
type Floors struct {
	lowest  atomic.Uint64 // of all
	highest atomic.Uint64 // of all
	mu      sync.Mutex    // guards:
	of      map[entry.KeyspaceID]entry.Version
	shared  bool // a reader has of: it changes in a copy
}

func (f *Floors) init(layout *layout.Layout) {
	f.of = map[entry.KeyspaceID]entry.Version{entry.DefaultKeyspace: layout.Floor()}
	for _, k := range layout.Keyspaces() {
		f.of[k.ID] = k.Floor()
	}
	f.boundLocked()
}

// Least is the version below which the history of all keyspaces may be gone.
func (f *Floors) Least() entry.Version { return entry.Version(f.lowest.Load()) }

// most is the version from which on no history is gone.
func (f *Floors) most() entry.Version { return entry.Version(f.highest.Load()) }

// all are the floors of this moment, and the least of them. They must not be written to.
func (f *Floors) all() (of map[entry.KeyspaceID]entry.Version, least entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shared = true
	return f.of, f.Least()
}

// ownLocked makes of one that no reader has.
func (f *Floors) ownLocked() {
	if f.shared {
		f.of, f.shared = maps.Clone(f.of), false
	}
}

// Raise raises the floors of those keyspaces that there are. To raise all of them
// takes one call, as each one looks at all floors.
func (f *Floors) Raise(to ...layout.KeyspaceFloor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownLocked()
	for _, k := range to {
		if at, found := f.of[k.ID]; found && at < k.Version {
			f.of[k.ID] = k.Version
		}
	}
	f.boundLocked()
}

// Add begins the floor of a new keyspace.
func (f *Floors) Add(id entry.KeyspaceID, at entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownLocked()
	f.of[id] = at
	f.lowest.Store(min(f.lowest.Load(), uint64(at)))
	f.highest.Store(max(f.highest.Load(), uint64(at)))
}

// Follow takes over what a later layout says, before its View is installed.
func (f *Floors) Follow(l *layout.Layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.init(l)
	f.shared = false
}

// Remove ends the floor of a dropped keyspace.
func (f *Floors) Remove(id entry.KeyspaceID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ownLocked()
	delete(f.of, id)
	f.boundLocked()
}

// boundLocked finds the lowest and the highest floor.
func (f *Floors) boundLocked() {
	lowest := f.of[entry.DefaultKeyspace]
	highest := lowest
	for _, at := range f.of {
		lowest, highest = min(lowest, at), max(highest, at)
	}
	f.lowest.Store(uint64(lowest))
	f.highest.Store(uint64(highest))
}

// Record has an edit of the layout say how far the floors have risen.
func (f *Floors) Record(edit *layout.Edit, l *layout.Layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit.Floor = max(edit.Floor, f.of[entry.DefaultKeyspace])
	for _, k := range l.Keyspaces() {
		if at := f.of[k.ID]; at > k.Floor() {
			edit.KeyspaceFloors = append(edit.KeyspaceFloors, layout.KeyspaceFloor{ID: k.ID, Version: at})
		}
	}
}
