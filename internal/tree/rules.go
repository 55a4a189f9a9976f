package tree

import (
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
	_, read := t.views.epochs.oldest(visible)
	watermark := func(age time.Duration) entry.Version {
		if age <= 0 {
			return read
		}
		return min(read, layout.VersionAt(now-age.Milliseconds()))
	}
	r := compact.Rules{
		Watermark: watermark(t.cfg.Retention.Age),
		Versions:  t.cfg.Retention.Versions,
		Bottom:    bottom,
		Now:       uint64(max(now, 0)),
		Keyspaces: make(map[entry.KeyspaceID]compact.History),
		Dropped:   layout.Dropped,
	}
	t.floors.raise(entry.DefaultKeyspace, r.Watermark)
	for _, k := range layout.Keyspaces() {
		h := compact.History{Watermark: watermark(k.Options.Age), Versions: int(min(k.Options.Versions, math.MaxInt32))}
		t.floors.raise(k.ID, h.Watermark)
		r.Keyspaces[k.ID] = h
	}
	// Whoever asks for an older version from now on is told that it is gone. Who
	// asked before and was not told yet holds it already: a second look sees that.
	_, read = t.views.epochs.oldest(visible)
	r.Watermark = min(r.Watermark, read)
	for id, h := range r.Keyspaces {
		h.Watermark = min(h.Watermark, read)
		r.Keyspaces[id] = h
	}
	return r
}

// floors are, for each keyspace, the version below which history may be gone.
// They only rise, and a floor rises before anything below it is dropped.
//
// Invariant: a reader announces its version before it looks at a floor (epoch.go).
// So a floor that it finds at or below its version never rises above that while
// it reads, and one who reads the newest version need not look.
type floors struct {
	lowest atomic.Uint64 // of all
	mu     sync.Mutex    // guards:
	of     map[entry.KeyspaceID]entry.Version
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

// get is the floor of a keyspace; one that there is not has none.
func (f *floors) get(id entry.KeyspaceID) entry.Version {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[id]
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
	for _, at := range f.of {
		lowest = min(lowest, at)
	}
	f.lowest.Store(uint64(lowest))
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
