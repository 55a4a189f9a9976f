package view

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Addition adds the records of one payload to a memtable: call Next and then AddRecord while there
// are More, and then AddCounts. AddAll does all of that.
type Addition struct {
	frame.Records
	to      *Table
	segment entry.FileNum // of the journal, which has the records
	at      int64         // where the current record lies in it
	inline  int64         // bytes of keys and inline values
	expires uint64        // earliest expiry of an entry, in Unix milliseconds; 0 = none expires
}

// BeginTransaction begins to add the records of a transaction, whose payload was written to the
// journal at this position, with the version v.
func (t *Table) BeginTransaction(payload []byte, at entry.Position, v entry.Version) Addition {
	t.JournalBytes += int64(len(payload))
	return Addition{Records: frame.WalkWritten(payload, at.Offset, v, at.Encrypted), to: t, segment: at.Segment}
}

// BeginFrame begins to add the records of a frame that was read in the journal. Its payload is at
// this position.
func (t *Table) BeginFrame(h *frame.Header, payload []byte, at entry.Position) Addition {
	t.JournalBytes += int64(len(payload))
	return Addition{Records: h.Walk(payload, at.Offset), to: t, segment: at.Segment}
}

// AddAll adds all records. It tells deleted, unless nil, of each delete.
func (a *Addition) AddAll(deleted func(key []byte)) error {
	var r entry.Record
	for a.More() {
		if err := a.Next(&r); err != nil {
			return err
		}
		if err := a.AddRecord(&r); err != nil {
			return err
		}
		// After it was added: whoever is told may look for the key.
		if r.Kind == entry.Delete && deleted != nil {
			deleted(r.Key)
		}
	}
	a.AddCounts()
	return nil
}

// Next decodes the next record.
func (a *Addition) Next(r *entry.Record) error {
	a.at = a.At()
	if err := a.Records.Next(r); err != nil {
		return a.wrapError(err)
	}
	return nil
}

// AddRecord adds the record that Next has decoded.
func (a *Addition) AddRecord(r *entry.Record) error {
	// A range delete is no entry: it is kept in a set of its own.
	if r.Kind == entry.RangeDelete {
		a.inline += int64(len(r.Key) + len(r.Value))
		return a.to.DeleteRange(r.Key, r.Value, r.Version)
	}
	if !r.Kind.Known() {
		return a.wrapError(fmt.Errorf("%w: record of kind %d", errs.ErrFormat, r.Kind))
	}
	e := entry.Entry{Key: r.Key, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	// A shorter record would share its granule with others, so a dead set, which has granules,
	// could not name it. It stays inline.
	if r.Own && r.Size >= layout.Granule {
		e.Separated, e.Raw = true, r.Raw
		e.Handle = entry.Handle{Segment: a.segment, Offset: uint64(a.at), Length: uint64(r.ValueSize)}
		a.to.Separated.Add(1)
		a.to.SeparatedBytes.Add(int64(r.ValueSize))
	} else if e.Value = r.Value; r.Raw != 0 {
		return errs.NewCorruption(filename.Of(filename.Journal, a.segment), a.at, "compressed value in a record of %d bytes", r.Size)
	}
	if e.Expires != 0 && (a.expires == 0 || e.Expires < a.expires) {
		a.expires = e.Expires
	}
	a.inline += int64(len(e.Key) + len(e.Value))
	return a.to.Add(&e)
}

// ReserveRecords makes room in the memtable for what AddRecord will add of payloads of so many
// records, ranges of them range deletes: then Record needs no memory that the system could refuse.
// The payloads hold no versions yet. Only the writer of the table calls it.
func (t *Table) ReserveRecords(payloads [][]byte, records, ranges int) error {
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

// AddCounts adds what was counted to the table's counters. It reports whether an entry expires
// before all that were there.
func (a *Addition) AddCounts() (earlier bool) {
	// Counters that a group would otherwise change once for each record.
	a.to.Last = max(a.to.Last, a.segment)
	a.to.InlineBytes.Add(a.inline)
	least := a.to.LeastExpiry.Load()
	if a.expires == 0 || least != 0 && least <= a.expires {
		return false
	}
	// No compare-and-swap: only the commit leader and replay add entries.
	a.to.LeastExpiry.Store(a.expires)
	return true
}

// wrapError adds to err where the current record lies.
func (a *Addition) wrapError(err error) error {
	return fmt.Errorf("segment %d at %d: %w", a.segment, a.at, err)
}
