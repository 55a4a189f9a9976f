package tree

import (
	"time"

	"github.com/brockdb/brock/internal/entry"
)

// Held is what readers keep from going away: Views that were replaced, and with
// them files and memtables that the store itself no longer needs.
type Held struct {
	Version     entry.Version // that the oldest reader reads; 0 if there is none
	Origin      uintptr       // the program counter where that reader began, 0 if it didn't say
	For         time.Duration // since a View that it holds was replaced; 0 if it holds the current one
	FileBytes   int64         // in files that only old Views need
	MemoryBytes int64         // in memtables that only old Views need
}

// longRead is for how long a replaced View is held before that is told.
const longRead = time.Minute

// held looks at all readers, and at everything that old Views hold.
func (t *Tree) held() (h Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, h.Version, _, h.Origin = t.views.readers.active()
	if view, since := t.heldSinceLocked(); view != 0 {
		h.For = max(t.now().Sub(since), 1)
	}
	seen := make(map[*shared]bool)
	t.views.current.Load().each(func(s *shared) { seen[s] = true })
	fresh := func(s *shared) bool {
		old := seen[s]
		seen[s] = true
		return !old
	}
	for _, r := range t.views.retired {
		for _, m := range r.view.tables {
			if fresh(&m.shared) {
				h.MemoryBytes += m.Bytes()
			}
		}
		for _, run := range r.view.runs {
			if fresh(&run.shared) {
				h.FileBytes += run.size()
			}
		}
		for _, f := range r.view.segments.files {
			if fresh(&f.shared) {
				h.FileBytes += f.size()
			}
		}
	}
	return h
}

// size is the length of the run's files.
func (r *sortedRun) size() (n int64) {
	for _, f := range r.Meta().Files {
		n += int64(f.Size)
	}
	return n
}

// size is the length of the file.
func (f *valueFile) size() int64 {
	if f.moved != nil {
		return f.moved.Size()
	}
	return f.Reader.End()
}

// tellHeld tells Config.OnLongRead of a reader that has held a replaced View for
// longRead, and again whenever that time has doubled. Whoever calls it holds the
// recording lock.
func (t *Tree) tellHeld() {
	if t.cfg.OnLongRead == nil {
		return
	}
	t.mu.Lock()
	view, since := t.heldSinceLocked()
	t.mu.Unlock()
	if view != t.told.view {
		t.told.view, t.told.after = view, 0
	}
	if held := t.now().Sub(since); view != 0 && held >= max(longRead, 2*t.told.after) {
		t.told.after = held
		t.cfg.OnLongRead(t.held())
	}
}

// heldSinceLocked returns the View of the oldest reader if that was replaced, and when.
func (t *Tree) heldSinceLocked() (view uint64, since time.Time) {
	readers, _, view, _ := t.views.readers.active()
	for _, r := range t.views.retired {
		if readers > 0 && r.view.id == view {
			return view, r.since
		}
	}
	return 0, time.Time{}
}
