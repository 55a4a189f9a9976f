package tree

import (
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
)

// Pin is a reader's hold on one View and one version. While it is held, none
// of the memory and files that the View names goes away. Its methods may be
// called from many goroutines; Release is called once, after all of them, and
// the Pin must not be touched afterwards.
type Pin struct {
	slot    *slot
	tree    *Tree
	view    *View
	version entry.Version
	floors  map[entry.KeyspaceID]entry.Version // if a version was asked for, those of that moment
}

// Acquire pins the current View for reads at the version at; 0 means the newest
// published one. It fails with ErrVersionGone for a version whose history may
// already have been dropped in every keyspace (Floor tells of each), with
// ErrInvalid for one not yet published, and with ErrClosed after Close.
func (t *Tree) Acquire(at entry.Version) (*Pin, error) {
	p := t.views.readers.pin()
	p.tree = t
	low := at
	if at == 0 {
		low = t.Visible()
	}
	p.slot.announce(low)
	// The slot is announced: from here on the order is version, then View, so
	// that the View has everything up to the version, then floor, which rises
	// before a View that lacks history is installed.
	visible := t.Visible()
	p.version = at
	if at == 0 {
		p.version = visible
	}
	p.view = t.views.take(p.slot)
	for at == 0 && p.version < t.floors.most() {
		// Somebody committed, and somebody else merged it, since the version was read.
		p.version = t.Visible()
		p.view = t.views.take(p.slot)
	}
	if err := t.readable(at, visible); err != nil {
		p.Release()
		return nil, err
	}
	if at != 0 {
		p.floors = t.floors.all()
	}
	return p, nil
}

// readable returns nil if a View pinned before has all that a reader of this
// version may see; 0 means that it does. Visible is what was published before the
// View was pinned: one that was published since may be missing in it.
func (t *Tree) readable(at, visible entry.Version) error {
	if t.closed.Load() {
		return errs.ErrClosed
	}
	if at == 0 {
		return nil
	}
	if at > visible {
		return fmt.Errorf("read at version %d, newest is %d: %w", at, visible, errs.ErrInvalid)
	}
	if floor := t.floors.least(); at < floor {
		return fmt.Errorf("read at version %d, oldest retained is %d: %w", at, floor, errs.ErrVersionGone)
	}
	return nil
}

// hold pins the current View but no version: work that goes on for long must
// not keep other work from dropping history.
func (t *Tree) hold() (*Pin, error) {
	p := t.views.readers.pin()
	p.tree, p.version = t, noVersion
	p.slot.announce(noVersion)
	p.view = t.views.take(p.slot)
	if t.closed.Load() {
		p.Release()
		return nil, errs.ErrClosed
	}
	return p, nil
}

// narrow gives up the hold for one on a part of its View: on what choose leaves in
// a copy. Long work must not keep, in memory and on the disk, what others flush
// and collect meanwhile. The part is held until release is called.
func (p *Pin) narrow(choose func(part *View)) (part *View, release func()) {
	defer p.Release()
	t := p.tree
	part = p.view.edit()
	choose(part)
	t.mu.Lock()
	defer t.mu.Unlock()
	part.each(func(s *shared) { s.views++ })
	return part, func() {
		t.mu.Lock()
		gone := part.drop()
		t.mu.Unlock()
		for _, fn := range gone {
			fn()
		}
	}
}

// Release gives up the hold.
func (p *Pin) Release() {
	t := p.tree
	p.view, p.floors = nil, nil
	t.leave(p.slot)
	t.views.readers.pool.Put(p)
}

// leave ends what was announced in s. Whoever may have been the last to hold a
// replaced View has it released.
func (t *Tree) leave(s *slot) {
	view := s.view.Load()
	s.version.Store(0)
	if view != t.views.current.Load().id {
		t.reclaimSoon()
	}
}

// From notes where the reader began, for Held: a program counter.
func (p *Pin) From(pc uintptr) {
	if p.slot.origin.Load() != pc { // most readers of a slot begin where the one before did
		p.slot.origin.Store(pc)
	}
}

// Version is the version that the Pin reads at.
func (p *Pin) Version() entry.Version { return p.version }

// Get finds the newest version of key at or below the Pin's and fills dst; a
// delete or an expired value is found like any other, what a range tombstone
// covers is not. dst.Key is unspecified,
// dst.Value is valid until Release.
func (p *Pin) Get(key []byte, dst *entry.Entry) (bool, error) {
	return p.view.get(key, hash.Sum(p.tree.cfg.Seed, key), p.version, dst)
}

// get goes through the View from new to old and stops at the first hit: in an
// unmanaged store whatever is newer in place is newer in version too.
//
// A tombstone that covers the key is older than what is in newer places, and
// newer than all in older ones: only the place that it is in must still be asked.
func (v *View) get(key []byte, h uint64, at entry.Version, dst *entry.Entry) (bool, error) {
	for _, t := range v.tables {
		deleted := entry.Version(0)
		if d := t.Tombstones(); d != nil {
			deleted = d.Newest(key, at)
		}
		if t.Get(key, h, at, dst) {
			return dst.Version >= deleted, nil
		}
		if deleted > 0 {
			return false, nil
		}
	}
	base := len(v.runs) - 1
	for i, r := range v.runs {
		if d := r.Tombstones(); d != nil {
			if deleted := d.Newest(key, at); deleted > 0 {
				found, err := r.Get(key, h, at, dst)
				return found && dst.Version >= deleted, err
			}
		}
		// The filter of the oldest run would cost what its index costs.
		if i < base && !r.MayContain(key, h) {
			continue
		}
		if found, err := r.Get(key, h, at, dst); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// Value returns the value of e, an entry that this Pin found under key. It is
// never nil, and valid until Release; but a compressed value, which e.Raw tells,
// is decoded into dst if its capacity is enough, else into memory of its own.
func (p *Pin) Value(key []byte, e *entry.Entry, dst []byte) ([]byte, error) {
	if !e.Separated {
		if e.Value == nil {
			return []byte{}, nil
		}
		return e.Value, nil
	}
	f, h, err := p.view.locate(e)
	if err != nil {
		return nil, err
	}
	v, err := f.stored(h, key, e)
	if err != nil || v.Raw == 0 {
		return v.Bytes, err
	}
	return f.Decode(&p.tree.coder, dst, v, h.Offset)
}

// stored is the separated value of e as it is stored.
func (v *View) stored(key []byte, e *entry.Entry) (entry.Stored, error) {
	f, h, err := v.locate(e)
	if err != nil {
		return entry.Stored{}, err
	}
	return f.stored(h, key, e)
}

// locate finds the segment that has e's separated value now, and the record there.
func (v *View) locate(e *entry.Entry) (*valueFile, entry.Handle, error) {
	h := e.Handle
	f := v.segments.find(h.Segment)
	if f == nil {
		return nil, h, errs.NewCorruption(fmt.Sprintf("segment %d", h.Segment), int64(h.Offset),
			"a value of %d bytes should be here, but the store has no such segment", h.Length)
	}
	if f.moved == nil {
		return f, h, nil
	}
	to, err := f.moved.resolved(h)
	return f.moved.target, to, err
}

// resolved is resolve for those who have no guard on.
func (r *relocation) resolved(h entry.Handle) (to entry.Handle, err error) {
	defer pageio.Guard(pageio.Arm(), &err, r.Name())
	err = r.resolve(&h)
	return h, err
}

// stored reads the value of e, whose record is at h.
func (f *valueFile) stored(h entry.Handle, key []byte, e *entry.Entry) (entry.Stored, error) {
	v, err := f.Stored(h, key, e.Version)
	if err == nil && v.Raw != e.Raw {
		return entry.Stored{}, errs.NewCorruption(filename.Of(f.Header().Kind, f.num), int64(h.Offset),
			"compressed value of %d bytes, want %d", v.Raw, e.Raw)
	}
	return v, err
}

// Touch asks the processor for the beginning of e's separated value, which
// takes it as long as Value would, but waits for nothing: the next calls go on
// meanwhile. It returns false if the value may have to come from the disk.
func (p *Pin) Touch(e *entry.Entry) bool {
	f := p.view.segments.find(e.Handle.Segment)
	if f == nil || f.moved == nil {
		return f != nil && f.Touch(e.Handle)
	}
	h := e.Handle
	return f.moved.resolve(&h) == nil && f.moved.target.Touch(h)
}

// Iterator walks all entries of the Pin's View, every version of every key,
// also those newer than the Pin's, and those that range tombstones cover. It
// must be closed before Release.
func (p *Pin) Iterator() iterator.Iterator { return p.view.iterator() }

// Cover is what range tombstones up to the Pin's version cover; nil if there are
// none. With voids it has ranges too in which everything was deleted key by key:
// that is for readers who skip what is deleted, not for history.
func (p *Pin) Cover(voids bool) *tombstone.Cover { return p.view.cover(p.version, voids) }

func (v *View) cover(at entry.Version, voids bool) *tombstone.Cover {
	var sets []*tombstone.Set
	for _, t := range v.tables {
		if d := t.Tombstones(); d != nil {
			sets = append(sets, d)
		}
		if voids {
			sets = append(sets, t.voids.Load().in(v)...)
		}
	}
	for _, r := range v.runs {
		if d := r.Tombstones(); d != nil {
			sets = append(sets, d)
		}
		if voids && r.voids != nil {
			sets = append(sets, r.voids)
		}
	}
	return tombstone.NewCover(at, sets...)
}

func (v *View) iterator() iterator.Iterator {
	sources := make([]iterator.Iterator, 0, len(v.tables)+len(v.runs))
	for _, t := range v.tables {
		if t.Len() > 0 {
			sources = append(sources, t.Iterator())
		}
	}
	for _, r := range v.runs {
		sources = append(sources, r.Iterator())
	}
	return iterator.Merge(sources)
}
