package view

import (
	"fmt"

	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/layout"
)

// Addition is the records of one payload on their way into a memtable.
type Addition struct {
	To      *Table
	At      entry.Position // of the next record
	Seed    uint64         // of key hashes
	inline  int64          // bytes of keys and of values that go into the table
	Expires uint64         // when the first entry does; 0 = none
	Count   emptied.Count
}

// Record adds one record.
func (a *Addition) Record(r *entry.Record) error {
	if r.Kind == entry.RangeDelete {
		a.inline += int64(len(r.Key) + len(r.Value))
		return a.To.DeleteRange(r.Key, r.Value, r.Version)
	}
	if !r.Kind.Known() {
		return a.Wrap(fmt.Errorf("%w: record of kind %d", errs.ErrFormat, r.Kind))
	}
	if a.Count.Entries++; r.Kind == entry.Delete {
		a.Count.Deletes++
	}
	e := entry.Entry{Key: r.Key, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	// A shorter record would share its granule with others, and could not be
	// told dead by it.
	if r.Own && r.Size >= layout.Granule {
		e.Separated, e.Raw = true, r.Raw
		e.Handle = entry.Handle{Segment: a.At.Segment, Offset: uint64(a.At.Offset), Length: uint64(r.ValueSize)}
		a.To.Separated.Add(1)
		a.To.SeparatedBytes.Add(int64(r.ValueSize))
	} else if e.Value = r.Value; r.Raw != 0 {
		return errs.NewCorruption(filename.Of(filename.Journal, a.At.Segment), a.At.Offset, "compressed value in a record of %d bytes", r.Size)
	}
	if e.Expires != 0 && (a.Expires == 0 || e.Expires < a.Expires) {
		a.Expires = e.Expires
	}
	a.inline += int64(len(e.Key) + len(e.Value))
	return a.To.Add(hash.Sum(a.Seed, r.Key), &e)
}

// Finish brings the table's counters up to date.
func (a *Addition) Finish() {
	a.To.Last = max(a.To.Last, a.At.Segment)
	a.To.InlineBytes.Add(a.inline)
}

// Wrap says where the record is that an error is about.
func (a *Addition) Wrap(err error) error {
	return fmt.Errorf("segment %d at %d: %w", a.At.Segment, a.At.Offset, err)
}
