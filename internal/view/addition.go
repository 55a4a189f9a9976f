package view

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/version/layout"
)

// Addition adds the records of one payload to a memtable: call Record for each, then Finish.
type Addition struct {
	To      *Table         // the memtable
	At      entry.Position // where the next record lies in the journal
	Seed    uint64         // of key hashes
	inline  int64          // bytes of keys and inline values
	Expires uint64         // earliest expiry of an entry, in Unix milliseconds; 0 = none expires
}

// Record adds one record.
func (a *Addition) Record(r *entry.Record) error {
	// A range delete is no entry: it is kept in a set of its own.
	if r.Kind == entry.RangeDelete {
		a.inline += int64(len(r.Key) + len(r.Value))
		return a.To.DeleteRange(r.Key, r.Value, r.Version)
	}
	if !r.Kind.Known() {
		return a.Wrap(fmt.Errorf("%w: record of kind %d", errs.ErrFormat, r.Kind))
	}
	e := entry.Entry{Key: r.Key, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	// A shorter record would share its granule with others, so a dead set, which has granules,
	// could not name it. It stays inline.
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

// Reserve makes room in the memtable for what Record will add of payloads of so many records,
// ranges of them range deletes: then Record needs no memory that the system could refuse. The
// payloads hold no versions yet. Only the writer of the table calls it.
func (t *Table) Reserve(payloads [][]byte, records, ranges int) error {
	bytes := 0
	for _, p := range payloads {
		bytes += len(p)
	}
	// Nearly always there is room, and nothing has to be decoded.
	if t.HasRoom(bytes, records, ranges) {
		return nil
	}
	var n memtable.Needs
	for _, p := range payloads {
		for len(p) > 0 {
			size, kept := entry.RawSize(p)
			// Encryption makes a record longer, so a value that is separated now stays so.
			if size < layout.Granule {
				kept = size
			}
			// The quick way does not tell which record is a range delete.
			if ranges == 0 && n.CountBytes(kept) {
				p = p[size:]
				continue
			}
			r, err := entry.DecodeRecord(p)
			if err != nil {
				return err
			}
			n.Count(r.Kind, r.Key, r.Value, r.Own && r.Size >= layout.Granule)
			p = p[r.Size:]
		}
	}
	return t.Table.Reserve(&n)
}

// Finish adds what was counted to the table's counters.
func (a *Addition) Finish() {
	// Counters that a group would otherwise change once for each record.
	a.To.Last = max(a.To.Last, a.At.Segment)
	a.To.InlineBytes.Add(a.inline)
}

// Wrap adds to err where the current record lies.
func (a *Addition) Wrap(err error) error {
	return fmt.Errorf("segment %d at %d: %w", a.At.Segment, a.At.Offset, err)
}
