package tree

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/memtable"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/tombstone"
)

// View is what a reader sees: the memtables, the runs and the segments that
// their handles lead to, each newest first. A View never changes; writers
// install the next one. (The newest memtable grows, but what a reader may see
// of it was there before.)
type View struct {
	id       uint64 // counts Views
	tables   []*table
	runs     []*sortedRun // those of layout
	segments segmentIndex // those of layout, and of the tables' journal
	layout   *manifest.Layout
	unsorted policy.Unclustered
}

// table is a memtable and the journal segments that hold the same records.
type table struct {
	*memtable.Table
	shared
	last entry.FileNum // newest of its journal segments; 0 while it has none
	end  journal.Point // where they end, once it is sealed

	separated      atomic.Int64  // entries whose values stayed in the journal
	separatedBytes atomic.Int64  // of these values
	bytes          atomic.Int64  // of the keys and the other values
	leastExpiry    atomic.Uint64 // Unix milliseconds; 0 = nothing expires

	// Bytes of separated values that entries replace, estimated by a sample, and of
	// all that range tombstones hide:
	replaced atomic.Int64 // in older memtables and runs
	outdated atomic.Int64 // in this one
	replayed bool         // it has entries that no sample was taken of

	deletes deletes
	voids   atomic.Pointer[noted] // see voids.go
}

// sortedRun is an open run.
type sortedRun struct {
	*run.Reader
	shared
	id      manifest.RunID
	order   uint64       // age: greater is newer
	dropped atomic.Int64 // bytes of keyspaces that were dropped since it was made, about

	voids  *tombstone.Set // see voids.go
	hidden int64          // bytes of separated values of older runs that it replaces, estimated; noHidden = not known
	ranged int64          // bytes of older runs that its range tombstones hide, estimated
}

// valueFile is an open segment, or what leads to where its records are now.
type valueFile struct {
	*segment.Reader // nil if relocated
	shared
	num   entry.FileNum
	moved *relocation // nil unless relocated
}

// relocation is where the records of a collected segment are. Every View that
// has it has the target too.
type relocation struct {
	*segment.Remap
	target *valueFile
}

// resolve makes h lead to where its record is in f's stead, which was relocated.
// A pageio.Guard must be on.
func (r *relocation) resolve(h *entry.Handle) error {
	to, ok := r.Lookup(h.Offset)
	if !ok {
		return errs.NewCorruption(r.Name(), -1, "the record at %d of segment %d is needed, but was not moved", h.Offset, h.Segment)
	}
	h.Segment, h.Offset = r.target.num, to
	return nil
}

// heal is resolve for any handle.
func (v *View) heal(h *entry.Handle) error {
	if f := v.segments.find(h.Segment); f != nil && f.moved != nil {
		return f.moved.resolve(h)
	}
	return nil
}

// healing is heal, or nil if there is nothing to heal.
func (v *View) healing() func(*entry.Handle) error {
	for _, f := range v.segments.files {
		if f.moved != nil {
			return v.heal
		}
	}
	return nil
}

// unmoved tells the segments that no handle is led on from, or to.
func (v *View) unmoved() func(entry.FileNum) bool {
	moved := make(map[entry.FileNum]bool)
	for _, f := range v.segments.files {
		if f.moved != nil {
			moved[f.num], moved[f.moved.target.num] = true, true
		}
	}
	return func(num entry.FileNum) bool { return !moved[num] }
}

// shared counts the Views that hold a resource. Only the tree's install,
// narrow and release touch it, under their mutex: readers hold Views, by their slots.
type shared struct {
	views    int
	obsolete bool   // its files go with the last View that holds it
	release  func() // called once no View holds it any more
}

// each calls fn for the shared part of every resource of v.
func (v *View) each(fn func(s *shared)) {
	for _, t := range v.tables {
		fn(&t.shared)
	}
	for _, r := range v.runs {
		fn(&r.shared)
	}
	for _, f := range v.segments.files {
		fn(&f.shared)
	}
}

// drop takes the View off its resources and returns what is to be called, without
// the tree's mutex, for those that no View holds any more. The caller holds it.
func (v *View) drop() (release []func()) {
	v.each(func(s *shared) {
		if s.views--; s.views == 0 && s.release != nil {
			release = append(release, s.release)
		}
	})
	return release
}

// active is the memtable that takes writes.
func (v *View) active() *table { return v.tables[0] }

// entries is about how many there are in [lo, hi).
func (v *View) entries(lo, hi []byte) (n int) {
	var err error // then it is what was counted so far
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	for _, m := range v.tables {
		n += m.Between(lo, hi)
	}
	for _, r := range v.runs {
		in, _, _ := r.Size(lo, hi)
		n += int(in)
	}
	return n
}

// edit returns a copy whose slices may be changed freely.
func (v *View) edit() *View {
	return &View{
		tables:   slices.Clone(v.tables),
		runs:     slices.Clone(v.runs),
		segments: v.segments,
		layout:   v.layout,
		unsorted: v.unsorted,
	}
}

// segmentIndex finds an open segment by number: an immutable open-addressing
// table, because every read of a separated value goes through it.
type segmentIndex struct {
	files []*valueFile // in order of number
	slots []*valueFile // power of two, at most half full
}

const indexFactor = 0x9e3779b97f4a7c15

func newSegmentIndex(files []*valueFile) segmentIndex {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b *valueFile) int { return cmp.Compare(a.num, b.num) })
	size := 4
	for size < 2*len(files) {
		size *= 2
	}
	x := segmentIndex{files: files, slots: make([]*valueFile, size)}
	for _, f := range files {
		i := x.home(f.num)
		for x.slots[i] != nil {
			i = (i + 1) & (size - 1)
		}
		x.slots[i] = f
	}
	return x
}

func (x *segmentIndex) home(num entry.FileNum) int {
	return int(uint64(num)*indexFactor>>32) & (len(x.slots) - 1)
}

// find returns the segment with this number, or nil.
func (x *segmentIndex) find(num entry.FileNum) *valueFile {
	if len(x.slots) == 0 {
		return nil
	}
	for i := x.home(num); ; i = (i + 1) & (len(x.slots) - 1) {
		if f := x.slots[i]; f == nil || f.num == num {
			return f
		}
	}
}

// with returns an index that has f too.
func (x *segmentIndex) with(f ...*valueFile) segmentIndex {
	return newSegmentIndex(append(slices.Clone(x.files), f...))
}

// without returns an index that lacks the given segments.
func (x *segmentIndex) without(gone func(entry.FileNum) bool) segmentIndex {
	return newSegmentIndex(slices.DeleteFunc(slices.Clone(x.files), func(f *valueFile) bool { return gone(f.num) }))
}

// views owns the current View and those that a reader may still hold.
type views struct {
	current atomic.Pointer[View]
	readers readers
	now     func() time.Time

	// Guarded by the tree's mutex:
	last    uint64 // number of the newest View
	retired []retiredView
}

type retiredView struct {
	view  *View
	since time.Time
}

// install makes next the current View. The caller holds the tree's mutex.
func (vs *views) install(next *View) {
	next.each(func(s *shared) { s.views++ })
	vs.last++
	next.id = vs.last
	if old := vs.current.Swap(next); old != nil {
		vs.retired = append(vs.retired, retiredView{old, vs.now()})
	}
}

// reclaim lets go of the retired Views that no reader holds, and returns what
// to call, without the mutex, to close the resources that nothing holds any
// more. The caller holds the tree's mutex.
func (vs *views) reclaim() (release []func()) {
	if len(vs.retired) == 0 {
		return nil
	}
	held := vs.readers.holds()
	vs.retired = slices.DeleteFunc(vs.retired, func(r retiredView) bool {
		if held[r.view.id] {
			return false
		}
		release = append(release, r.view.drop()...)
		return true
	})
	return release
}
