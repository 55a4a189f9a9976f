package tree

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
)

// rules are what a flush or merge that begins now may drop.
func (t *Tree) rules(bottom bool) compact.Rules {
	now := t.now().UnixMilli()
	layout := t.layout()
	visible := t.Visible()
	watermark := func(age time.Duration) entry.Version {
		if age <= 0 {
			return visible
		}
		return min(visible, layout.VersionAt(now-age.Milliseconds()))
	}
	r := compact.Rules{
		Watermark: watermark(t.cfg.Retention.Age),
		Versions:  t.cfg.Retention.Versions,
		Bottom:    bottom,
		Now:       uint64(max(now, 0)),
		Keyspaces: make(map[entry.KeyspaceID]compact.History),
		Dropped:   layout.Dropped,
	}
	// Whoever asks for an older version from now on is told that it is gone. Who
	// has asked before holds a View that has it, whatever later ones drop.
	t.floors.raise(entry.DefaultKeyspace, r.Watermark)
	for _, k := range layout.Keyspaces() {
		h := compact.History{Watermark: watermark(k.Options.Age), Versions: int(min(k.Options.Versions, math.MaxInt32))}
		t.floors.raise(k.ID, h.Watermark)
		r.Keyspaces[k.ID] = h
	}
	r.Checked = t.views.readers.oldest(visible)
	return r
}

// floors are, for each keyspace, the version below which history may be gone.
// They only rise, and a floor rises before a View is installed in which anything
// below it is missing. So a reader who takes a View and then finds the floors at or
// below its version has all of it in that View.
type floors struct {
	lowest  atomic.Uint64 // of all
	highest atomic.Uint64 // likewise
	mu      sync.Mutex    // guards:
	of      map[entry.KeyspaceID]entry.Version
}

func (f *floors) init(layout *manifest.Layout) {
	f.of = map[entry.KeyspaceID]entry.Version{entry.DefaultKeyspace: layout.Floor()}
	for _, k := range layout.Keyspaces() {
		f.of[k.ID] = k.Floor()
	}
	f.settleLocked()
}

// least is the version below which the history of all keyspaces may be gone.
func (f *floors) least() entry.Version { return entry.Version(f.lowest.Load()) }

// most is the version from which on no history is gone.
func (f *floors) most() entry.Version { return entry.Version(f.highest.Load()) }

// all are the floors of this moment.
func (f *floors) all() map[entry.KeyspaceID]entry.Version {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.of)
}

// raise raises the floor of a keyspace that there is.
func (f *floors) raise(id entry.KeyspaceID, to entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, found := f.of[id]; found && at < to {
		f.of[id] = to
		f.settleLocked()
	}
}

// add begins the floor of a new keyspace; remove ends that of a dropped one.
func (f *floors) add(id entry.KeyspaceID, at entry.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[id] = at
	f.settleLocked()
}

func (f *floors) remove(id entry.KeyspaceID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, id)
	f.settleLocked()
}

func (f *floors) settleLocked() {
	lowest := f.of[entry.DefaultKeyspace]
	highest := lowest
	for _, at := range f.of {
		lowest, highest = min(lowest, at), max(highest, at)
	}
	f.lowest.Store(uint64(lowest))
	f.highest.Store(uint64(highest))
}

// record has an edit of the layout say how far the floors have risen.
func (f *floors) record(edit *manifest.Edit, layout *manifest.Layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit.Floor = max(edit.Floor, f.of[entry.DefaultKeyspace])
	for _, k := range layout.Keyspaces() {
		if at := f.of[k.ID]; at > k.Floor() {
			edit.KeyspaceFloors = append(edit.KeyspaceFloors, manifest.KeyspaceFloor{ID: k.ID, Version: at})
		}
	}
}
