// Package spill keeps the pending writes of one transaction that outgrew its memory: keys and small
// values in runs, large values in value segments, all in files that no layout names. It checks the
// transaction for conflicts, and gives the files to the store.
package spill

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Config says where the files are written and for which store.
type Config struct {
	Files        *view.Opener // numbers, opens and removes the files
	NoMap        bool         // read value segments without mapping them
	SegmentBytes int64        // bytes at which a value segment ends
	Sorted       bool         // what is added comes in rising order of keys, each key once
	Coder        *codec.Coder // decodes compressed values
}

// Files are the pending writes of one transaction in runs, its parts, and value segments. In the
// files all has version 0, as the transaction's version is not known before it commits. While a
// part is open, its stamp is its age, greater for newer parts. So parts are the runs of a View, and
// hide each other as those of the store do. A range delete covers what is in older parts only: what
// it covers of its own part is not in that.
//
// If they are Sorted, there is one part only: what is added goes to the run that the store gets, so
// it is written once. It can't be read before FinishRun.
//
// Files end in one of two ways: FinishRun makes one durable run of the parts, which an edit of the
// manifest may then add to the store with the transaction's version as its stamp; or Discard
// removes the files. A crash leaves them to the next Open, which removes files that nothing names.
//
// They are used by one goroutine at a time; other goroutines may call Value meanwhile.
type Files struct {
	cfg     Config
	added   int            // parts that were added, before compactions
	parts   view.View      // its runs are the parts
	retired view.View      // its runs are compacted parts that readers may still use
	lent    bool           // readers may hold bytes of the files
	out     compact.Output // what is finished: value segments, what is dead in these and, after FinishRun, one run
	bytes   int64          // bytes of records added
	written int64          // bytes of files written
	err     error          // the first failure; nothing can be added after it
	kept    bool           // the files belong to the store, or may: Discard leaves them

	sorted *run.Writer       // of the one part, if they are Sorted; nil: nothing was added, or it is finished
	ranges []rangedel.Source // range deletes that it gets at its end

	writer   *segment.ValueWriter      // of the value segment being filled; nil: there is none
	segments atomic.Pointer[view.View] // has all value segments; another one replaces it, as others read it
}

// New returns empty Files; it creates no file before there is something to write.
func New(cfg Config) *Files {
	f := &Files{cfg: cfg}
	f.segments.Store(new(view.View))
	return f
}

// Add writes records, encoded with version 0 one after the other, the later of
// two with one key being the newer. They may be reused when it returns. before is the number of the
// transaction's records before them. ranges has the range deletes among them; the version of each
// is its number in the transaction, from 1. They cover what was written before them.
// After an error, which sticks, the Files can only be read and discarded.
func (f *Files) Add(ctx context.Context, records []byte, before int, ranges *rangedel.Set) error {
	return f.addPart(ctx, len(records), func(w *run.Writer) error {
		if f.cfg.Sorted {
			return f.addSorted(w, records, ranges)
		}
		for _, p := range newestByKey(records, before, rangedel.NewCover(entry.MaxVersion, ranges)) {
			if _, err := f.addRecord(w, records[p.at:]); err != nil {
				return err
			}
		}
		return w.AddRanges(ranges)
	})
}

// addSorted writes the records as they come.
func (f *Files) addSorted(w *run.Writer, records []byte, ranges *rangedel.Set) error {
	// A run has range deletes behind its entries. They are few: of the first records only.
	if ranges != nil {
		f.ranges = append(f.ranges, ranges)
	}
	for len(records) > 0 {
		size, err := f.addRecord(w, records)
		if err != nil {
			return err
		}
		records = records[size:]
	}
	return nil
}

// addRecord writes the record at the start of rec, unless it is a range delete: its value, if it has
// its own checksum and a handle may lead to it, to a value segment. It returns the record's length.
func (f *Files) addRecord(w *run.Writer, rec []byte) (size int, err error) {
	r, err := entry.DecodeRecord(rec)
	if err != nil || r.Kind == entry.RangeDelete {
		return r.Size, err
	}
	e := entry.Entry{Key: r.Key, Value: r.Value, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta, Raw: r.Raw}
	if r.Own && r.Size >= layout.Granule {
		return r.Size, f.addSeparated(w, e, rec[:r.Size])
	}
	return r.Size, w.Add(&e)
}

// AddLarge is Add for one entry with a large value, which it writes piece by piece
// from where it is: nothing as long as the value is held in memory.
func (f *Files) AddLarge(ctx context.Context, e *entry.Entry) error {
	return f.addPart(ctx, entry.RecordSize(e, true), func(w *run.Writer) (err error) {
		// The value may be one that was read, and lie in a mapped file.
		defer pageio.Guard(pageio.Arm(), &err, "the value to write")
		return f.addSeparated(w, *e, nil)
	})
}

// addSeparated writes the value of e to a segment, and what leads to it to w. record is encoded e;
// nil: it is not in memory as a whole.
func (f *Files) addSeparated(w *run.Writer, e entry.Entry, record []byte) (err error) {
	if e.Handle, err = f.appendValue(&e, record); err != nil {
		return err
	}
	e.Value, e.Separated = nil, true
	return w.Add(&e)
}

// Get finds the pending write of a key with this hash and fills dst, whose
// Version is then rangedel.Pending. dst.Value is valid until Discard. A range delete gives a
// delete of the key.
func (f *Files) Get(key []byte, hash uint64, dst *entry.Entry) (found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, someFile)
	newest, found, err := f.parts.FindKey(key, hash, 0, entry.MaxVersion, dst)
	if newest == 0 || err != nil {
		return false, err
	}
	f.lent = f.lent || found
	if !found {
		*dst = entry.Entry{Kind: entry.Delete}
	}
	dst.Version = rangedel.Pending
	return true, nil
}

// someFile names the file in the error of a memory fault.
const someFile = "a file of a transaction"

// Iterators walk the parts, newest first, without what later range deletes cover, also
// those of ranges, which are not added yet; entries with one key hide those of later
// iterators. Their entries have the version rangedel.Pending, and are valid until Discard.
func (f *Files) Iterators(ranges *rangedel.Set) []iterator.Iterator {
	f.lent = true
	cover := f.parts.Cover(entry.MaxVersion, false)
	if ranges != nil {
		cover = cover.WithPending(ranges)
	}
	sources := make([]iterator.Iterator, len(f.parts.Runs))
	for i, p := range f.parts.Runs {
		sources[i] = &uncovered{Iterator: p.Iterator(), cover: cover}
	}
	return sources
}

// Ranges returns the range deletes. Their versions only have a meaning within the Files. They
// are valid until Discard.
func (f *Files) Ranges() (sources []rangedel.Source) {
	for _, p := range f.parts.Runs {
		if t := p.RangeDeletes(); !t.Empty() {
			f.lent = true
			sources = append(sources, t)
		}
	}
	return sources
}

// Value returns the value of e, a separated entry that Get or an iterator found
// under key. It is never nil, and valid until Discard, unless it is own: then it is in dst,
// if the capacity of that is enough, or in memory of its own.
func (f *Files) Value(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error) {
	// Its record is of version 0, see Files.
	stored := *e
	stored.Version = 0
	return f.segments.Load().ReadValue(f.cfg.Coder, key, &stored, dst, nil)
}

// Entries is how many entries the finished run has.
func (f *Files) Entries() int64 { return int64(f.out.Run.Entries) }

// Bytes is the length of the records added.
func (f *Files) Bytes() int64 { return f.bytes }

// WrittenBytes is the length of all files that were written, also of those that are not finished.
func (f *Files) WrittenBytes() int64 {
	n := f.written
	if f.sorted != nil {
		n += f.sorted.Size()
	}
	if f.writer != nil {
		n += f.writer.Size()
	}
	return n
}

// Discard closes the files. With remove, it also removes them, except those that are kept. Nothing
// that was handed out is valid afterwards. A second call does nothing.
func (f *Files) Discard(remove bool) {
	if f.sorted != nil {
		f.sorted.Abandon(remove)
		f.sorted = nil
	}
	discardFiles(&f.parts, remove && !f.kept)
	discardFiles(&f.retired, remove) // the store never gets them
	if f.writer != nil {
		_ = f.writer.Close()
		f.writer = nil
	}
	discardFiles(f.segments.Swap(new(view.View)), remove && !f.kept)
	f.parts.Runs, f.retired.Runs = nil, nil
	f.err = cmp.Or(f.err, errs.ErrTxnDone)
}

// uncovered walks what the transaction sees of a part: what no newer range delete covers. All entries
// have the version rangedel.Pending. A part has one entry of a key, so all skips are single moves.
type uncovered struct {
	iterator.Iterator
	cover *rangedel.Cover // of range deletes; nil: there are none
	entry entry.Entry     // a copy of the current entry: that of the Iterator must not be changed
}

func (it *uncovered) First() bool { return it.skipCovered(it.Iterator.First(), it.Iterator.Next) }
func (it *uncovered) SeekGE(key []byte) bool {
	return it.skipCovered(it.Iterator.SeekGE(key), it.Iterator.Next)
}
func (it *uncovered) Next() bool { return it.skipCovered(it.Iterator.Next(), it.Iterator.Next) }
func (it *uncovered) Last() bool { return it.skipCovered(it.Iterator.Last(), it.Iterator.Prev) }
func (it *uncovered) SeekLT(key []byte) bool {
	return it.skipCovered(it.Iterator.SeekLT(key), it.Iterator.Prev)
}
func (it *uncovered) Prev() bool                        { return it.skipCovered(it.Iterator.Prev(), it.Iterator.Prev) }
func (it *uncovered) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *uncovered) SkipLT([]byte, entry.Version) bool { return it.Prev() }
func (it *uncovered) SkipNewer(entry.Version) bool      { return it.Next() }
func (it *uncovered) Entry() *entry.Entry               { return &it.entry }

// Err returns the error because of which a move returned false; nil at the end.
func (it *uncovered) Err() error {
	if it.cover == nil {
		return it.Iterator.Err()
	}
	return cmp.Or(it.Iterator.Err(), it.cover.Err())
}

// skipCovered moves on while the entry is covered. ok says whether there is an entry.
func (it *uncovered) skipCovered(ok bool, move func() bool) bool {
	for ; ok; ok = move() {
		it.entry = *it.Iterator.Entry()
		if it.cover == nil || it.cover.Newest(it.entry.Key) <= it.entry.Version {
			it.entry.Version = rangedel.Pending
			return true
		}
		if it.cover.Err() != nil {
			return false
		}
	}
	return false
}
