// Package view holds the store's current View: the memtables, runs and segments that together are
// the data (RocksDB calls it a superversion). Readers pin it without a lock: a Pin is a snapshot
// reference. A writer installs the next View without stopping anybody.
//
// # Ownership
//
// A resource is a table, a run or a segment. Its holders are counted: each installed View that has
// it is one, and so is each part of a View that background work holds (Pin.HoldPart). When the last
// holder is gone, the resource's release function is called. It closes the resource and, if this
// was retired, removes its files.
package view

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// View is what a reader sees: memtables and runs, each newest first, and the segments that their
// handles (value pointers) lead to. A View never changes; writers install the next one. Only the
// active memtable changes, and only by entries newer than any published version.
type View struct {
	ID       uint64         // counts the installed Views, from 1
	Tables   []*Table       // newest first; the first one takes writes
	Runs     []*Run         // those of Layout, newest first
	Segments Segments       // those of Layout, and of the tables' journal
	Feed     Feed           // what the change feed reads of Layout.Feed
	Layout   *layout.Layout // what the manifest says the store consists of
	emptied  emptied        // emptied ranges, which seeks skip
}

// Active is the memtable that takes writes.
func (v *View) Active() *Table { return v.Tables[0] }

// Clone returns a copy whose slices may be changed freely.
func (v *View) Clone() *View {
	next := &View{
		Tables:   slices.Clone(v.Tables),
		Runs:     slices.Clone(v.Runs),
		Segments: v.Segments,
		Feed:     v.Feed,
		Layout:   v.Layout,
	}
	// It is atomic, so it is not copied like the rest.
	next.emptied.Store(v.emptied.Load())
	return next
}

// Close releases all resources of a View that was never installed, as after a
// failed open.
func (v *View) Close() { v.eachResource((*shared).Discard) }

// RetireFiles marks the files of v as garbage: what holds them last removes them.
func (v *View) RetireFiles() { v.eachResource((*shared).Retire) }

// eachResource calls fn for the shared part of every resource of v.
func (v *View) eachResource(fn func(s *shared)) {
	for _, t := range v.Tables {
		fn(&t.shared)
	}
	for _, r := range v.Runs {
		fn(&r.shared)
	}
	for _, f := range v.Segments.Files {
		fn(&f.shared)
	}
	v.Feed.each(v.Runs, &v.Segments, fn) // what is in both counts once
}

// dropHolder counts the View out as a holder of its resources. It returns the release functions of
// those that nothing holds any more. The caller holds the Set's mutex, and calls them after it has
// unlocked it, because they may remove files.
func (v *View) dropHolder() (release []func()) {
	v.eachResource(func(s *shared) {
		if s.views--; s.views == 0 {
			release = append(release, s.Discard)
		}
	})
	return release
}

// HandleRewriter returns a function for a compaction, which writes handles to a new file. The
// function makes a handle point to where its record is now, if a collection has moved that. It
// copies each page of a forwarding table and verifies the copy: nothing is written that was not
// verified. HandleRewriter returns nil if no segment of the View is relocated.
func (v *View) HandleRewriter() func(*entry.Handle) error {
	copiers := map[entry.FileNum]lookup{}
	for _, f := range v.Segments.Files {
		if f.Moved != nil {
			copiers[f.Num] = f.Moved.Copier()
		}
	}
	if len(copiers) == 0 {
		return nil
	}
	return func(h *entry.Handle) error {
		// One step is enough: a target is never relocated while a source still leads to it.
		if from := copiers[h.Segment]; from != nil {
			return v.Segments.Find(h.Segment).Moved.forwardHandle(h, from)
		}
		return nil
	}
}

// Unmoved returns a function that reports whether a segment has no part in a relocation:
// it is neither the source nor the target of one.
func (v *View) Unmoved() func(entry.FileNum) bool {
	moved := make(map[entry.FileNum]bool)
	for _, f := range v.Segments.Files {
		if f.Moved != nil {
			moved[f.Num], moved[f.Moved.Target.Num] = true, true
		}
	}
	return func(num entry.FileNum) bool { return !moved[num] }
}

// JournalSegment finds the journal segment behind number after that has the next frames: one of the
// feed, or one that is not in runs yet. nil: there is none.
func (v *View) JournalSegment(after entry.FileNum) (next *Segment) {
	for _, list := range [...][]*Segment{v.Feed.Segments.Files, v.Segments.Files} {
		for _, f := range list {
			unflushed := f.Num > v.Layout.FlushedTo() && v.Layout.Segment(f.Num) == nil
			if f.Moved != nil || f.Header().Kind != filename.Journal || f.Num <= after || next != nil && f.Num >= next.Num {
				continue
			}
			if unflushed || v.Feed.Segments.Find(f.Num) == f {
				next = f
			}
		}
	}
	return next
}
