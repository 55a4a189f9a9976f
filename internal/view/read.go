package view

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// FindKey finds the newest version of key up to the version at, and fills dst. It searches tables,
// then runs, from new to old, and stops at the first hit: all versions of a key in a newer table or
// run are newer than those in an older one. newest is the version of what it has hit, 0 for
// nothing. found is false if that is a range delete, which hides all that is older.
//
// With a since above 0 it leaves out tables and runs without anything newer than that version.
func (v *View) FindKey(key []byte, h uint64, since, at entry.Version, dst *entry.Entry) (newest entry.Version, found bool, err error) {
	for _, t := range v.Tables {
		if t.lacksNewer(since) {
			continue
		}
		// Within a table only versions tell whether the delete or the entry came first.
		deleted := entry.Version(0)
		if d := t.RangeDeletes(); d != nil {
			deleted = d.Newest(key, at)
		}
		if t.Get(key, h, at, dst) {
			return max(dst.Version, deleted), dst.Version >= deleted, nil
		}
		// All that is older is hidden.
		if deleted > 0 {
			return deleted, false, nil
		}
	}
	base := len(v.Runs) - 1
	for i, r := range v.Runs {
		if r.lacksNewer(since) {
			continue
		}
		deleted := entry.Version(0)
		if d := r.RangeDeletes(); !d.Empty() {
			if deleted, err = d.Newest(key, at); err != nil {
				return 0, false, err
			}
		}
		// The oldest run has nearly all keys. Its filter would say yes, at the cost of a cache
		// miss.
		if i == base || r.MayContain(key, h) {
			if found, err = r.Get(key, h, at, dst); err != nil {
				return 0, false, err
			}
			if found {
				return max(dst.Version, deleted), dst.Version >= deleted, nil
			}
		}
		// The filter does not know of range deletes, so this comes behind it.
		if deleted > 0 {
			return deleted, false, nil
		}
	}
	return 0, false, nil
}

// ReadValue is Pin.ReadValue with memory of a lender, unless from is nil. coder decodes.
func (v *View) ReadValue(coder *codec.Coder, key []byte, e *entry.Entry, dst []byte, from segment.Lender) (value []byte, own bool, err error) {
	// A collection may have moved the record.
	f, h, err := v.locateValue(e)
	if err != nil {
		return nil, false, err
	}
	if e.Raw != 0 {
		value, err = f.decodeValue(coder, h, key, e, dst, from)
		return value, from == nil, err
	}
	stored, err := f.readStored(dst, from, h, key, e)
	return stored.Bytes, stored.Own, err
}

// MoveValue copies the record of e's separated value to a new segment, and returns the handle of
// the copy.
func (v *View) MoveValue(to *segment.ValueWriter, key []byte, e *entry.Entry) (entry.Handle, error) {
	f, h, err := v.locateValue(e)
	if err != nil {
		return h, err
	}
	return to.MoveRecord(f.Reader, h, key, e.Version)
}

// locateValue returns the segment that has e's separated value now, and the handle of the record
// there, which differs from e's if a collection has moved it.
func (v *View) locateValue(e *entry.Entry) (*Segment, entry.Handle, error) {
	h := e.Handle
	f := v.Segments.Find(h.Segment)
	if f == nil {
		return nil, h, errs.NewCorruption(fmt.Sprintf("segment %d", h.Segment), int64(h.Offset),
			"a value of %d bytes should be here, but the store has no such segment", h.Length)
	}
	if f.Moved == nil {
		return f, h, nil
	}
	to, err := f.Moved.resolveHandle(h)
	return f.Moved.Target, to, err
}

// Iterator merges all entries of the View. A pageio.Guard must be on while it moves.
func (v *View) Iterator() iterator.Iterator {
	var few [8]iterator.Iterator // Merge keeps none of it
	sources := few[:0]
	for _, t := range v.Tables {
		if t.Len() > 0 {
			sources = append(sources, t.Iterator())
		}
	}
	for _, r := range v.Runs {
		sources = append(sources, r.Iterator())
	}
	return iterator.Merge(sources)
}

// Cover returns what range deletes up to a version cover and, with emptied, the emptied ranges; nil
// if there are none.
func (v *View) Cover(at entry.Version, emptied bool) *rangedel.Cover {
	var few [4]rangedel.Source // NewCover keeps none of it
	sources := few[:0]
	if known := v.emptied.Load(); emptied && known != nil {
		sources = append(sources, known)
	}
	for _, t := range v.Tables {
		if d := t.RangeDeletes(); d != nil {
			sources = append(sources, d)
		}
	}
	for _, r := range v.Runs {
		if d := r.RangeDeletes(); !d.Empty() {
			sources = append(sources, d)
		}
	}
	return rangedel.NewCover(at, sources...)
}
