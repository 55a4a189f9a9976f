package view

import (
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/tombstone"
)

// get goes through the View from new to old and stops at the first hit: in an
// unmanaged store whatever is newer in place is newer in version too.
//
// A tombstone that covers the key is older than what is in newer places, and
// newer than all in older ones: only the place that it is in must still be asked.
func (v *View) get(key []byte, h uint64, at entry.Version, dst *entry.Entry) (bool, error) {
	for _, t := range v.Tables {
		// A range delete in this table hides what is older in it too, by version.
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
	base := len(v.Runs) - 1
	for i, r := range v.Runs {
		if d := r.Tombstones(); !d.Empty() {
			deleted, err := d.Newest(key, at)
			if err != nil {
				return false, err
			}
			if deleted > 0 {
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

// Stored is the separated value of e as it is stored. For dst see segment.Reader.StoredIn.
func (v *View) Stored(dst, key []byte, e *entry.Entry) (entry.Stored, error) {
	f, h, err := v.locate(e)
	if err != nil {
		return entry.Stored{}, err
	}
	return f.stored(dst, h, key, e)
}

// Move copies the record of e's separated value to a new segment.
func (v *View) Move(to *segment.ValueWriter, key []byte, e *entry.Entry) (entry.Handle, error) {
	f, h, err := v.locate(e)
	if err != nil {
		return h, err
	}
	return to.Move(f.Reader, h, key, e.Version)
}

// locate finds the segment that has e's separated value now, and the record there.
func (v *View) locate(e *entry.Entry) (*Segment, entry.Handle, error) {
	h := e.Handle
	f := v.Segments.Find(h.Segment)
	if f == nil {
		return nil, h, errs.NewCorruption(fmt.Sprintf("segment %d", h.Segment), int64(h.Offset),
			"a value of %d bytes should be here, but the store has no such segment", h.Length)
	}
	if f.Moved == nil {
		return f, h, nil
	}
	to, err := f.Moved.resolved(h)
	return f.Moved.Target, to, err
}

// Iterator merges all entries of the View. A pageio.Guard must be on while it moves.
func (v *View) Iterator() iterator.Iterator {
	sources := v.tableIterators(make([]iterator.Iterator, 0, len(v.Tables)+len(v.Runs)))
	for _, r := range v.Runs {
		sources = append(sources, r.Iterator())
	}
	return iterator.Merge(sources)
}

// tableIterators appends those of the memtables.
func (v *View) tableIterators(sources []iterator.Iterator) []iterator.Iterator {
	for _, t := range v.Tables {
		if t.Len() > 0 {
			sources = append(sources, t.Iterator())
		}
	}
	return sources
}

// Cover is what range tombstones up to a version cover and, with emptied, the
// ranges that deletes have emptied; nil if there are none.
func (v *View) Cover(at entry.Version, emptied bool) *tombstone.Cover {
	var few [4]tombstone.Source // NewCover keeps none of it
	sources := v.tableTombstones(few[:0], emptied)
	for _, r := range v.Runs {
		if d := r.Tombstones(); !d.Empty() {
			sources = append(sources, d)
		}
	}
	return tombstone.NewCover(at, sources...)
}

// tableTombstones appends those of the memtables and, with emptied, the ranges that deletes
// have emptied.
func (v *View) tableTombstones(sources []tombstone.Source, emptied bool) []tombstone.Source {
	if emptied {
		sources = v.Known.AppendTo(sources)
	}
	for _, t := range v.Tables {
		if d := t.Tombstones(); d != nil {
			sources = append(sources, d)
		}
	}
	return sources
}
