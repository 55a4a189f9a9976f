package tree

import (
	"fmt"

	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// addition is the records of one payload on their way into a memtable.
type addition struct {
	to      *view.Table
	at      entry.Position // of the next record
	seed    uint64         // of key hashes
	inline  int64          // bytes of keys and of values that go into the table
	expires uint64         // when the first entry does; 0 = none
	count   emptied.Count
}

// record adds one record.
func (a *addition) record(r *entry.Record) error {
	if r.Kind == entry.RangeDelete {
		a.inline += int64(len(r.Key) + len(r.Value))
		return a.to.DeleteRange(r.Key, r.Value, r.Version)
	}
	if !r.Kind.Known() {
		return a.wrap(fmt.Errorf("%w: record of kind %d", errs.ErrFormat, r.Kind))
	}
	if a.count.Entries++; r.Kind == entry.Delete {
		a.count.Deletes++
	}
	e := entry.Entry{Key: r.Key, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	// A shorter record would share its granule with others, and could not be
	// told dead by it.
	if r.Own && r.Size >= layout.Granule {
		e.Separated, e.Raw = true, r.Raw
		e.Handle = entry.Handle{Segment: a.at.Segment, Offset: uint64(a.at.Offset), Length: uint64(len(r.Value))}
		a.to.Separated.Add(1)
		a.to.SeparatedBytes.Add(int64(len(r.Value)))
	} else if e.Value = r.Value; r.Raw != 0 {
		return errs.NewCorruption(filename.Of(filename.Journal, a.at.Segment), a.at.Offset, "compressed value in a record of %d bytes", r.Size)
	}
	if e.Expires != 0 && (a.expires == 0 || e.Expires < a.expires) {
		a.expires = e.Expires
	}
	a.inline += int64(len(e.Key) + len(e.Value))
	return a.to.Add(hash.Sum(a.seed, r.Key), &e)
}

// finish brings the table's counters up to date.
func (a *addition) finish() {
	a.to.Last = max(a.to.Last, a.at.Segment)
	a.to.InlineBytes.Add(a.inline)
}

func (a *addition) wrap(err error) error {
	return fmt.Errorf("segment %d at %d: %w", a.at.Segment, a.at.Offset, err)
}
