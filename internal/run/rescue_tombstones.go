package run

import (
	"bytes"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
)

// Rescued returns the same tombstones for a walk that goes on behind damage, as
// Reader.Rescuer does for entries. Once a search meets damage, it reads all tombstones that
// can be read into memory, and searches there. It is used by one goroutine, without a
// pageio.Guard.
func (t Tombstones) Rescued(tell func(*errs.Corruption) bool) tombstone.Source {
	return &rescuedTombstones{Tombstones: t, tell: tell}
}

type rescuedTombstones struct {
	Tombstones
	tell  func(*errs.Corruption) bool
	found bool           // damage was met, and set is loaded
	set   *tombstone.Set // what can be read; nil: nothing
}

// Find is the method of a tombstone.Source.
func (t *rescuedTombstones) Find(key []byte, at entry.Version, around *tombstone.Stretch) (v entry.Version, err error) {
	if !t.found {
		// A search that fails may have narrowed around. That does no harm: the answer below
		// holds in any part of its own stretch.
		if v, err = t.try(key, at, around); !errors.Is(err, errs.ErrCorrupt) {
			return v, err
		}
		if err := t.load(); err != nil {
			return 0, err
		}
	}
	if t.set == nil {
		return 0, nil
	}
	return t.set.Find(key, at, around)
}

func (t *rescuedTombstones) try(key []byte, at entry.Version, around *tombstone.Stretch) (v entry.Version, err error) {
	defer pageio.Guard(pageio.Arm(), &err, t.spans.files[0].name)
	return t.Tombstones.Find(key, at, around)
}

// Since is the method of a tombstone.Source.
func (t *rescuedTombstones) Since(v entry.Version, fn func(tombstone.Tombstone) error) error {
	if !t.found {
		if err := t.load(); err != nil {
			return err
		}
	}
	if t.set == nil {
		return nil
	}
	return t.set.Since(v, fn)
}

// load reads what can be read. Every span is a part of a tombstone, in a node above the
// lowest level too: so what is lost in one node may be found in another.
func (t *rescuedTombstones) load() error {
	var all []tombstone.Tombstone
	it := t.spans.Rescuer(t.tell)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if d, ok := spanOf(it.Entry()); ok {
			all = append(all, tombstone.Tombstone{Lo: bytes.Clone(d.Lo), Hi: bytes.Clone(d.Hi), Version: d.Version})
		}
	}
	if it.Err() != nil {
		return it.Err()
	}
	slices.SortFunc(all, tombstone.Compare)
	t.set, t.found = tombstone.New(all...), true
	return nil
}
