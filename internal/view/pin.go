package view

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Pin is a reader's hold on one View and one version (a snapshot reference). While it is held, the
// memory and the files of the View stay. Its methods may be called from many goroutines. Call
// Release once, after all other calls, and do not use the Pin after it.
//
// Most methods turn a fault in mapped memory (a disk that fails, say) into an *errs.Corruption. Get
// and the moves of an Iterator do not: their callers must have a pageio.Guard on, or a fault ends
// the process.
type Pin struct {
	slot      *readerSlot                        // its own slot, as long as it lives
	set       *Set                               // the Set that it belongs to
	view      *View                              // what it holds; nil while idle
	version   entry.Version                      // what it reads at; noVersion for background work
	floors    map[entry.KeyspaceID]entry.Version // floors at the time of Acquire(at > 0); else nil
	extraRefs atomic.Int32                       // extra references; the last Release drops the pin
	lent      lent                               // memory of values that ReadValue has returned
}

// Acquire pins the current View for reads at the version at; 0 means the newest
// published one. It returns ErrVersionGone for a version whose history may
// already have been dropped in every keyspace (Pin.FloorOf tells of each), ErrInvalid
// for one not yet published, and ErrClosed after Close.
func (s *Set) Acquire(at entry.Version) (*Pin, error) {
	p := s.takePin()
	// Announce something that is old enough before anything is read: from here on no compaction
	// drops what a version from low on needs. The newest version can only be newer than low.
	low := at
	if at == 0 {
		low = s.Visible()
	}
	p.slot.announceVersion(low)
	// The order is: announce, read the version, take the View, read the floors.
	// The View is newer than the version, so it has everything up to it. Floors rise
	// before a View that lacks history is installed, so they tell what it lacks.
	visible := s.Visible()
	p.version = at
	if at == 0 {
		p.version = visible
	}
	p.view = s.holdCurrent(p.slot)
	for at == 0 && p.version < s.Floors.highestFloor() {
		// A commit, and a compaction that drops what it replaced, came between the version and the
		// View: the View may lack history of p.version. Take a newer version, which it has.
		p.version = s.Visible()
		p.view = s.holdCurrent(p.slot)
	}
	if err := s.checkReadable(p, at, visible); err != nil {
		// Acquire gives back all that it has, announcement included, or it would hold up
		// compactions.
		p.Release()
		return nil, err
	}
	return p, nil
}

// takePin returns an idle Pin that owns a slot.
func (s *Set) takePin() *Pin {
	if p, _ := s.pins.Get().(*Pin); p != nil {
		return p
	}
	p := &Pin{slot: s.readers.addSlot(), set: s}
	p.lent.all = &s.lent
	// The slot of a Pin is given back when the garbage collector frees the Pin: one that
	// the pool has dropped, or one that was never released. Until then a leaked Pin
	// keeps its View. So nothing that a Set leads to may refer to what a Pin is part of:
	// it would not be collected.
	runtime.AddCleanup(p, s.recycleSlot, p.slot)
	return p
}

// recycleSlot ends the slot of a Pin that the garbage collector has freed.
func (s *Set) recycleSlot(slot *readerSlot) {
	if s.readers.removeSlot(slot) {
		s.reclaimSoon()
	}
}

// checkReadable returns nil if p can read the version at: the store is open, the version was
// published before p took its View (visible is the newest such version), and not all keyspaces have
// dropped its history. An at of 0 asked for the newest version, which is always readable. For
// another version p keeps the floors of this moment, because the current ones may rise at any time.
func (s *Set) checkReadable(p *Pin, at, visible entry.Version) error {
	if s.closed.Load() {
		return errs.ErrClosed
	}
	if at == 0 {
		return nil
	}
	if at > visible {
		return fmt.Errorf("read at version %d, newest is %d: %w", at, visible, errs.ErrInvalid)
	}
	// After the View is held, so a floor that has risen for it is seen.
	floors, floor := s.Floors.all()
	if at < floor {
		return fmt.Errorf("read at version %d, oldest retained is %d: %w", at, floor, errs.ErrVersionGone)
	}
	p.floors = floors
	return nil
}

// Hold pins the current View, but no version. It is for background work, which reads
// files for a long time but needs no old versions: compactions may go on to
// drop history. It returns ErrClosed after Close.
func (s *Set) Hold() (*Pin, error) {
	p := s.takePin().holdView()
	// Checked after the View is held, so that no Close that came before is missed.
	if s.closed.Load() {
		p.Release()
		return nil, errs.ErrClosed
	}
	return p, nil
}

// holdView makes the Pin hold the current View, but no version. It returns the Pin.
func (p *Pin) holdView() *Pin {
	// Busy, but holds up no compaction.
	p.version = noVersion
	p.slot.announceVersion(noVersion)
	p.view = p.set.holdCurrent(p.slot)
	return p
}

// releaseView releases the View that enter took.
func (p *Pin) releaseView() {
	p.view = nil
	// p.view goes first: after the slot is idle its View may be freed at any time.
	p.set.releaseSlot(p.slot)
}

// Fork returns another Pin of the same View and version, to be released by itself. The caller
// holds p.
func (p *Pin) Fork() *Pin {
	s := p.set
	f := s.takePin()
	// A look at all slots takes time. With the mutex of that look, it sees p's slot before p can be
	// released, or the new one's.
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	f.slot.announceVersion(p.version)
	f.slot.view.Store(p.view.ID)
	f.view, f.version, f.floors = p.view, p.version, p.floors
	f.SetOrigin(p.slot.origin.Load())
	return f
}

// AddReference adds a reference: one more call of Release is necessary. The caller holds the Pin.
func (p *Pin) AddReference() { p.extraRefs.Add(1) }

// Release gives up the version and the View. Memory that Get, ReadValue or an Iterator has returned
// is invalid from then on. Of a shared Pin, the last call does so.
func (p *Pin) Release() {
	// Load first: most pins are never shared, and an atomic add costs more than a load.
	if p.extraRefs.Load() > 0 && p.extraRefs.Add(-1) >= 0 {
		return
	}
	// Two calls at once may have made it -1.
	p.extraRefs.Store(0)
	s := p.set
	p.view, p.floors = nil, nil
	// Values that were lent die with the Pin.
	if p.lent.last != nil || p.lent.full.Load() {
		p.lent.returnBlocks()
	}
	// From here on files and memtables of the View may go.
	s.releaseSlot(p.slot)
	s.pins.Put(p) // its slot goes with it
}

// HasLentAll reports whether the Pin has no more memory to lend, so that ReadValue makes garbage.
func (p *Pin) HasLentAll() bool { return p.lent.full.Load() }

// ReleaseLeaked is the Release of a leaked reader. Memory that the Pin has lent stays with those who
// may still use it, and no other reader gets it again. With keep, they may use memory of the View,
// too, which is then held for good.
func (p *Pin) ReleaseLeaked(keep bool) {
	p.lent.forgetBlocks()
	if keep {
		s := p.set
		s.mu.Lock()
		// Before Release, which may release the View at once.
		s.kept[p.view.ID] = true
		s.mu.Unlock()
	}
	p.Release()
}

// HoldPart releases the Pin, and holds a part of its View instead: choose removes from a copy of
// the View what the caller does not read. Long work calls it so that it does not keep other
// memtables and files, which are flushed and collected meanwhile. The part has nothing of the Feed
// unless choose adds it, and is held until release is called.
func (p *Pin) HoldPart(choose func(part *View)) (part *View, release func()) {
	defer p.Release()
	s := p.set
	part = p.view.Clone()
	part.Feed = Feed{} // nearly nobody reads it, and it may be the first to go
	choose(part)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The part counts as a holder before the deferred Release lets the View go.
	part.eachResource(func(r *shared) { r.views++ })
	return part, func() {
		s.mu.Lock()
		gone := part.dropHolder()
		s.mu.Unlock()
		// Without the mutex: release functions may remove files.
		for _, fn := range gone {
			fn()
		}
	}
}

// View is what the Pin holds.
func (p *Pin) View() *View { return p.view }

// Version is the version that the Pin reads at.
func (p *Pin) Version() entry.Version { return p.version }

// Origin returns where the reader began, as given to SetOrigin: function, file and line.
func (p *Pin) Origin() string { return formatOrigin(p.slot.origin.Load()) }

// SetOrigin notes where the reader began, as a program counter. LongReader reports it.
func (p *Pin) SetOrigin(pc uintptr) {
	if p.slot.origin.Load() != pc { // most readers of a slot begin where the one before did
		p.slot.origin.Store(pc)
	}
}

// HasKeyspace reports whether there was a keyspace of this number, other than the
// default one, when the Pin was acquired.
func (p *Pin) HasKeyspace(id entry.KeyspaceID) bool { return p.view.Layout.Keyspace(id) != nil }

// FloorOf returns the version below which history of a keyspace may be missing. It is the
// floor of the View. A Pin that asked for its version also counts the floors at the
// time of Acquire, because its commit is checked against later Views, and a compaction
// that runs now may be dropping deletes that the check needs. No such compaction is
// missed: it raises the floors before it looks at the readers' slots, and this Pin
// announced its version before it looked at the floors.
func (p *Pin) FloorOf(id entry.KeyspaceID) entry.Version {
	floor := p.floors[id]
	if id == entry.DefaultKeyspace {
		return max(floor, p.view.Layout.Floor())
	}
	if k := p.view.Layout.Keyspace(id); k != nil {
		return max(floor, k.Floor())
	}
	return entry.MaxVersion // the View has no such keyspace, so nothing of it can be read
}

// Get finds the newest version of key at or below the Pin's version, and fills dst. h is the hash
// of key. A delete or an expired entry is found like any other; an entry that a range delete covers
// is not found. dst.Key is unspecified, dst.Value is valid until Release. The caller must have a
// pageio.Guard on: one guard can then cover the caller's reads of key and value too.
func (p *Pin) Get(key []byte, h uint64, dst *entry.Entry) (found bool, err error) {
	if _, found, err = p.view.FindKey(key, h, 0, p.version, dst); err != nil {
		p.view.NameKeys(err)
	}
	return found, err
}

// ReadValue returns the separated value of e, an entry that this Pin found under key. It is never
// nil. With lend, a value that has to be decoded (e.Raw is its length then), decrypted or read from
// the disk lies in memory of the Pin, and every value is valid until Release. Without it own is
// true for such a value, which then lies in dst if cap(dst) is enough, else in new memory.
func (p *Pin) ReadValue(key []byte, e *entry.Entry, dst []byte, lend bool) (value []byte, own bool, err error) {
	var from segment.Lender
	if lend {
		from = &p.lent
	}
	value, own, err = p.view.ReadValue(p.set.Coder, key, e, dst, from)
	if err != nil {
		return nil, false, p.view.withKeys(err, key)
	}
	return value, own, nil
}

// Iterator walks all entries of the Pin's View, every version of every key, also those newer than
// the Pin's, and those that range deletes cover. It must be closed before Release. Its moves read
// mapped memory: the caller puts a pageio.Guard around them, one around many where it can.
func (p *Pin) Iterator() iterator.Iterator { return p.view.Iterator() }

// Cover returns what range deletes up to the Pin's version cover, or nil if there are none. With
// emptied it also has the emptied ranges. Readers of current values set it, to skip deletes
// quickly. Readers of history must not: in emptied ranges they still have to see the deletes and
// what was before.
func (p *Pin) Cover(emptied bool) *rangedel.Cover { return p.view.Cover(p.version, emptied) }

// NoteEmptied notes an emptied range: an iterator at the Pin's version has found nothing visible
// in [lo, hi), and only because of deletes (not of expiry, say). Later iterators skip the
// range. lo and hi are copied.
func (p *Pin) NoteEmptied(lo, hi []byte) {
	r := rangedel.Emptied(bytes.Clone(lo), bytes.Clone(hi), p.version)
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	p.view.noteEmptied(r)
	if now := p.set.current.Load(); now != p.view {
		now.noteEmptied(r)
	}
}
