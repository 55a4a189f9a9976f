package view

import (
	"fmt"
	"runtime"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
)

// Pin is a reader's hold on one View and one version. While it is held, none
// of the memory and files that the View names goes away. Its methods may be
// called from many goroutines; Release is called once, after all of them, and
// the Pin must not be touched afterwards.
//
// A fault in mapped memory, as when a disk fails, becomes an *errs.Corruption here,
// but for Get and the moves of an Iterator, whose callers have a pageio.Guard on.
type Pin struct {
	slot    *readerSlot
	set     *Set
	view    *View
	version entry.Version
	floors  map[entry.KeyspaceID]entry.Version // if a version was asked for, those of that moment
}

// Acquire pins the current View for reads at the version at; 0 means the newest
// published one. It returns ErrVersionGone for a version whose history may
// already have been dropped in every keyspace (Pin.Floor tells of each), ErrInvalid
// for one not yet published, and ErrClosed after Close.
func (s *Set) Acquire(at entry.Version) (*Pin, error) {
	p := s.pin()
	low := at
	if at == 0 {
		low = s.Visible()
	}
	p.slot.announce(low)
	// The slot is announced: from here on the order is version, then View, so
	// that the View has everything up to the version, then floor, which rises
	// before a View that lacks history is installed.
	visible := s.Visible()
	p.version = at
	if at == 0 {
		p.version = visible
	}
	p.view = s.take(p.slot)
	for at == 0 && p.version < s.Floors.most() {
		// There was a commit, and a compaction of it, since the version was read.
		p.version = s.Visible()
		p.view = s.take(p.slot)
	}
	if err := s.readable(p, at, visible); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// pin returns an idle Pin that owns a slot.
func (s *Set) pin() *Pin {
	if p, _ := s.pins.Get().(*Pin); p != nil {
		return p
	}
	p := &Pin{slot: s.readers.take(), set: s}
	// A Pin that the pool lets go gives its slot back; one that is leaked while
	// it is held keeps it, and what it pins, until the garbage collector finds it.
	runtime.AddCleanup(p, s.recycle, p.slot)
	return p
}

func (s *Set) recycle(slot *readerSlot) {
	if s.readers.giveBack(slot) {
		s.reclaimSoon()
	}
}

// readable returns nil if p, which holds its View, has all that a reader of the version
// at may see; 0 means that it does. Visible is what was published before the View was
// pinned: one that was published since may be missing in it. A Pin that asked for its
// version keeps the floors that it was checked against, as they may rise any time.
func (s *Set) readable(p *Pin, at, visible entry.Version) error {
	if s.closed.Load() {
		return errs.ErrClosed
	}
	if at == 0 {
		return nil
	}
	if at > visible {
		return fmt.Errorf("read at version %d, newest is %d: %w", at, visible, errs.ErrInvalid)
	}
	floors, floor := s.Floors.all()
	if at < floor {
		return fmt.Errorf("read at version %d, oldest retained is %d: %w", at, floor, errs.ErrVersionGone)
	}
	p.floors = floors
	return nil
}

// Hold pins the current View but no version: work that goes on for long must
// not keep other work from dropping history. It returns ErrClosed after Close.
func (s *Set) Hold() (*Pin, error) {
	p := s.pin()
	p.Enter()
	if s.closed.Load() {
		p.Release()
		return nil, errs.ErrClosed
	}
	return p, nil
}

// Reserve returns a Pin for one who looks at the View again and again, as the
// commit leader does: it holds something only between Enter and Leave, and is
// never released.
func (s *Set) Reserve() *Pin { return &Pin{slot: s.readers.take(), set: s} }

// Enter has a reserved Pin hold the current View, but no version.
func (p *Pin) Enter() {
	p.version = noVersion
	p.slot.announce(noVersion)
	p.view = p.set.take(p.slot)
}

// Leave ends what Enter began.
func (p *Pin) Leave() { p.set.leave(p.slot) }

// Release gives up the hold.
func (p *Pin) Release() {
	s := p.set
	p.view, p.floors = nil, nil
	s.leave(p.slot)
	s.pins.Put(p)
}

// Keep gives up the hold on the version, but never that on the View: a reader has leaked,
// and nobody knows whether what it has handed out is in use.
func (p *Pin) Keep() {
	s := p.set
	s.mu.Lock()
	s.kept[p.view.ID] = true
	s.mu.Unlock()
	p.Release()
}

// Narrow gives up the hold for one on a part of its View: on what choose leaves in
// a copy. Long work must not keep, in memory and on the disk, what others flush
// and collect meanwhile. The part is held until release is called.
func (p *Pin) Narrow(choose func(part *View)) (part *View, release func()) {
	defer p.Release()
	s := p.set
	part = p.view.Clone()
	choose(part)
	s.mu.Lock()
	defer s.mu.Unlock()
	part.each(func(r *shared) { r.views++ })
	return part, func() {
		s.mu.Lock()
		gone := part.drop()
		s.mu.Unlock()
		for _, fn := range gone {
			fn()
		}
	}
}

// View is what the Pin holds.
func (p *Pin) View() *View { return p.view }

// Version is the version that the Pin reads at.
func (p *Pin) Version() entry.Version { return p.version }

// Begun is where the reader began, as From was told: function, file and line.
func (p *Pin) Begun() string { return place(p.slot.origin.Load()) }

// From notes where the reader began, for LongReader: a program counter.
func (p *Pin) From(pc uintptr) {
	if p.slot.origin.Load() != pc { // most readers of a slot begin where the one before did
		p.slot.origin.Store(pc)
	}
}

// Holds reports whether there was a keyspace of this number, other than the
// default one, when the Pin was acquired.
func (p *Pin) Holds(id entry.KeyspaceID) bool { return p.view.Layout.Keyspace(id) != nil }

// Floor is the version below which history of a keyspace may be missing: in what
// the Pin holds or, of a Pin that asked for its version, in what its commit is
// checked against. The View alone does not tell the latter: a compaction under way
// may be dropping deletes that no reader had announced an interest in when it began.
// But it has raised the floors before it looked at readers, and this Pin was
// announced before it looked at the floors.
func (p *Pin) Floor(id entry.KeyspaceID) entry.Version {
	floor := p.floors[id]
	if id == entry.DefaultKeyspace {
		return max(floor, p.view.Layout.Floor())
	}
	if k := p.view.Layout.Keyspace(id); k != nil {
		return max(floor, k.Floor())
	}
	return entry.MaxVersion // it was made, or dropped, at another time
}

// Get finds the newest version of key, which has the hash h, at or below the Pin's
// version and fills dst. A delete or an expired value is found like any other, what a
// range tombstone covers is not. dst.Key is unspecified, dst.Value is valid until Release.
// A pageio.Guard must be on: callers have one around the key and the value too.
func (p *Pin) Get(key []byte, h uint64, dst *entry.Entry) (found bool, err error) {
	if found, err = p.view.get(key, h, p.version, dst); err != nil {
		p.view.Explain(err)
	}
	return found, err
}

// GetAt is Get at another version, with a guard of its own.
func (p *Pin) GetAt(key []byte, h uint64, at entry.Version, dst *entry.Entry) (found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	return p.view.get(key, h, at, dst)
}

// Value returns the value of e, an entry that this Pin found under key. It is
// never nil, and valid until Release; but a value that is compressed, which e.Raw tells,
// encrypted, or not in memory, is decoded, or read, into dst if its capacity is enough, else
// into memory of its own.
func (p *Pin) Value(key []byte, e *entry.Entry, dst []byte) ([]byte, error) {
	v, _, err := p.OwnValue(key, e, dst)
	return v, err
}

// OwnValue is Value, and reports whether the value is in dst or memory of its own, and not
// in the Pin's memory.
func (p *Pin) OwnValue(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error) {
	if !e.Separated {
		if e.Value == nil {
			return []byte{}, false, nil
		}
		return e.Value, false, nil
	}
	f, h, err := p.view.locate(e)
	if err != nil {
		return nil, false, p.view.explained(err, key)
	}
	// What is compressed can't be decoded into the memory that it is in.
	var memory []byte
	if e.Raw == 0 {
		memory = dst
	}
	v, err := f.stored(memory, h, key, e)
	switch {
	case err != nil:
		return nil, false, p.view.explained(err, key)
	case v.Raw == 0:
		return v.Bytes, v.Own, nil
	}
	if value, err = f.Decode(p.set.cfg.Coder, dst, v, h.Offset); err != nil {
		return nil, true, p.view.explained(err, key)
	}
	return value, true, nil
}

// touch asks the processor for the beginning of e's separated value, which
// takes it as long as Pin.Value would, but waits for nothing: the next calls go on
// meanwhile. It returns false if the value may have to come from the disk.
func (v *View) touch(e *entry.Entry) bool {
	f := v.Segments.Find(e.Handle.Segment)
	if f == nil || f.Moved == nil {
		return f != nil && f.Touch(e.Handle) // a prefetch can't fault
	}
	h, err := f.Moved.resolved(e.Handle)
	return err == nil && f.Moved.Target.Touch(h)
}

// Iterator walks all entries of the Pin's View, every version of every key,
// also those newer than the Pin's, and those that range tombstones cover. It
// must be closed before Release. Its moves read mapped memory: the caller puts a
// pageio.Guard around them, one around many where it can.
func (p *Pin) Iterator() iterator.Iterator { return p.view.Iterator() }

// Cover is what range tombstones up to the Pin's version cover; nil if there are
// none. With emptied it has ranges too in which everything was deleted key by key:
// that is for readers who skip what is deleted, not for history.
func (p *Pin) Cover(emptied bool) *tombstone.Cover { return p.view.Cover(p.version, emptied) }

// Newest returns the newest version of key, published or not, be it that of a
// range tombstone, if it is newer than since: what a transaction has read lies in
// old runs, which are not asked again.
func (p *Pin) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	newest, found, err = p.view.newest(key, h, since)
	p.view.Explain(err)
	return newest, found, err
}

// ChangedSince reports whether [lo, hi) has an entry newer than since, or meets a
// range tombstone that is; a nil hi is no bound.
func (p *Pin) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	changed, err = p.view.changedSince(lo, hi, since)
	p.view.Explain(err)
	return changed, err
}

// SortSince makes calls of ChangedSince cheap, the commit leader's too, if much is
// newer than since. It may take long, so the leader never calls it.
func (p *Pin) SortSince(since entry.Version) { p.view.sortSince(since) }

// EachSince calls fn with each key, and with the bounds of each range tombstone, that
// is newer than since, until fn returns an error, which it returns. A key has a nil hi.
func (p *Pin) EachSince(since entry.Version, fn func(lo, hi []byte) error) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	return p.view.eachSince(since, fn)
}

// EachArrival is EachSince, but quick: it walks nothing that is older than since, and
// returns false if it would have to, because something is in a run already.
func (p *Pin) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	if !p.view.inTables(since) {
		return false, nil
	}
	return true, p.view.eachArrival(since, fn)
}
