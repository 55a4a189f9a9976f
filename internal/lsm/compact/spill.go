package compact

import (
	"bytes"
	"context"
	"slices"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// SpillConfig says where the files are written and for which store.
type SpillConfig struct {
	filename.Store                      // runs go to Dir, value segments to ValueDir
	NextNum        func() entry.FileNum // gives each file its number
	SegmentBytes   int64                // bytes at which a value segment ends
	RunFileBytes   int64                // bytes at which a file of a run ends
	FilterKeys     int                  // keys of one filter of a run; 0: run.DefaultFilterKeys
	Coder          *codec.Coder         // decodes compressed values
	Cache          *run.Cache           // cache of run chunks, where files are not mapped
	Files          *pageio.Files        // opens what is read; nil: without a limit
}

// Spill keeps the pending writes of one transaction that outgrew its memory: keys and small values
// in runs, large values in value segments, all in files that no manifest names. Their entries have
// version 0, as the transaction's version is not known before it commits.
//
// A Spill ends in one of two ways: Finish makes one durable run of it by a compaction, which an edit
// of the manifest may then add to the store with a stamp, its version; or Discard removes the files.
// A crash leaves them to the next Open, which removes files that nothing names.
//
// It is used by one goroutine at a time; other goroutines may call Value meanwhile.
type Spill struct {
	cfg     SpillConfig   // where it is written
	parts   []*spillPart  // newest first
	retired []*spillPart  // compacted parts that readers may still use
	aliased bool          // readers may hold bytes of the parts
	dead    layout.Deaths // records of values that were overwritten
	values  spillValues   // the value segments
	bytes   int64         // bytes of records added
	runs    int64         // bytes of runs written
	err     error         // the first failure; nothing can be added after it
	kept    bool          // the files belong to the store: Discard leaves them
}

// NewSpill returns an empty Spill; it creates no file before there is something to write.
func NewSpill(cfg SpillConfig) *Spill {
	return &Spill{cfg: cfg, values: spillValues{cfg: cfg, readers: map[entry.FileNum]*segment.Reader{}}}
}

// Add writes records, encoded with version 0 one after the other, the later of
// two with one key being the newer. They may be reused when it returns. The last
// one has the number last among the records of the transaction. ranges has the range deletes
// among them; the version of each is its number. They cover what was written before them.
// After an error, which sticks, the Spill can only be read and discarded.
func (s *Spill) Add(ctx context.Context, records []byte, last int, ranges *rangedel.Set) error {
	if s.err == nil && len(records) > 0 {
		s.err = s.addRecords(ctx, records, last, ranges)
	}
	return s.err
}

// addRecords sorts records and writes them as a part.
func (s *Spill) addRecords(ctx context.Context, records []byte, last int, ranges *rangedel.Set) error {
	s.bytes += int64(len(records))
	sorted := newestByKey(records, last, rangedel.NewCover(entry.MaxVersion, ranges))
	return s.addPart(ctx, func(w *run.Writer) error {
		for _, at := range sorted {
			if err := s.addRecord(w, records[at:]); err != nil {
				return err
			}
		}
		// What they cover in this part is not in it: they are for older parts.
		if err := writeRanges(w, ranges); err != nil {
			return err
		}
		// Flushed before anybody can find the handles in the part.
		return s.values.flushSegment() // readers will follow handles
	})
}

// addPart writes a part.
func (s *Spill) addPart(ctx context.Context, fill func(w *run.Writer) error) error {
	// Neither run nor values are synced before Finish: a crash ends the transaction anyway.
	w := s.newRun(true)
	if err := fill(w); err != nil {
		w.Abort()
		return err
	}
	meta, err := w.Finish()
	if err != nil {
		return err
	}
	if err := s.openRun(meta, 0, 0); err != nil {
		return err
	}
	return s.compactLevels(ctx)
}

// AddLarge is Add for one entry with a large value, which it writes piece by piece
// from where it is: nothing as long as the value is held in memory.
func (s *Spill) AddLarge(ctx context.Context, e *entry.Entry) error {
	if s.err == nil {
		s.err = s.addLarge(ctx, e)
	}
	return s.err
}

// addLarge writes one entry as a part, and its value to a segment.
func (s *Spill) addLarge(ctx context.Context, e *entry.Entry) error {
	s.bytes += int64(entry.RecordSize(e, true))
	return s.addPart(ctx, func(w *run.Writer) (err error) {
		// The value may be one that was read, and lie in a mapped file.
		defer pageio.Guard(pageio.Arm(), &err, "the value to write")
		h, err := s.values.addLarge(e)
		if err != nil {
			return err
		}
		return w.Add(&entry.Entry{Key: e.Key, Expires: e.Expires, Kind: e.Kind, Meta: e.Meta, Separated: true, Handle: h})
	})
}

// addRecord writes the record at the start of rec: its value, if it has its own
// checksum and a handle may lead to it, to a value segment.
func (s *Spill) addRecord(w *run.Writer, rec []byte) error {
	r, err := entry.DecodeRecord(rec)
	if err != nil {
		return err
	}
	e := entry.Entry{Key: r.Key, Value: r.Value, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	if r.Own && r.Size >= layout.Granule {
		e.Value, e.Separated, e.Raw = nil, true, r.Raw
		if e.Handle, err = s.values.appendRecord(rec[:r.Size], uint64(len(r.Value))); err != nil {
			return err
		}
	}
	return w.Add(&e)
}

// newRun begins a run.
func (s *Spill) newRun(unsynced bool) *run.Writer {
	return run.NewWriter(run.WriterConfig{
		FS: s.cfg.FS, Dir: s.cfg.Dir, UUID: s.cfg.UUID, Ring: s.cfg.Ring, Seed: s.cfg.Seed, NextNum: s.cfg.NextNum, FileBytes: s.cfg.RunFileBytes,
		FilterKeys: s.cfg.FilterKeys, Unsynced: unsynced,
	})
}

// openRun opens a finished run in the place of the newest n parts.
func (s *Spill) openRun(written layout.RunMeta, n, level int) error {
	m := written
	s.runs += int64(m.FileBytes())
	// Here all has one version, as it will have in the store. With version 0 its range deletes
	// would not be found: 0 means none.
	m.Stamp, m.MinVersion, m.MaxVersion = 1, 1, 1
	r, err := run.Open(run.OpenConfig{FS: s.cfg.FS, Dir: s.cfg.Dir, UUID: s.cfg.UUID, Ring: s.cfg.Ring, Seed: s.cfg.Seed, NoMap: s.cfg.NoMap, Cache: s.cfg.Cache, Files: s.cfg.Files}, m)
	if err != nil {
		s.removeRun(&m)
		return err
	}
	s.retire(n)
	s.parts = slices.Concat([]*spillPart{{r, written, level}}, s.parts)
	return nil
}

// retire removes the newest n parts from the list.
func (s *Spill) retire(n int) {
	for _, p := range s.parts[:n] {
		// Bytes that readers hold stay valid until Discard, so the mapping stays, too.
		if s.aliased {
			s.retired = append(s.retired, p)
			continue
		}
		_ = p.Close()
		s.removeRun(p.Meta())
	}
	s.parts = s.parts[n:]
}

// Get finds the pending write of a key with this hash and fills dst, whose
// Version is then 0. dst.Value is valid until Discard. A range delete gives a
// delete of the key.
func (s *Spill) Get(key []byte, hash uint64, dst *entry.Entry) (found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a file of a transaction")
	for _, p := range s.parts {
		if p.MayContain(key, hash) {
			if found, err := p.Get(key, hash, entry.MaxVersion, dst); found || err != nil {
				dst.Version = 0
				s.aliased = s.aliased || found
				return found, err
			}
		}
		// The part's range deletes cover all that is in older parts. Its own entries that they
		// cover are not in it, so they are asked first.
		if deleted, err := p.RangeDeletes().Newest(key, entry.MaxVersion); deleted > 0 || err != nil {
			*dst = entry.Entry{Kind: entry.Delete}
			return err == nil, err
		}
	}
	return false, nil
}

// Iterators walk the parts, newest first, without what later range deletes cover, also
// those of ranges, which are not added yet; entries with one key hide those of later
// iterators. Their entries have version v, and are valid until Discard, as far as any are.
func (s *Spill) Iterators(ranges *rangedel.Set, v entry.Version) []iterator.Iterator {
	s.aliased = true
	sources := make([]iterator.Iterator, len(s.parts))
	newer := []rangedel.Source{ranges}
	for i, p := range s.parts {
		sources[i] = &versioned{Iterator: uncovered(p.Iterator(), newer, nil), version: v}
		newer = append(newer, p.RangeDeletes())
	}
	return sources
}

// Writes reports whether a key in [lo, hi) is written or in a range that is
// deleted; without hi, whether lo is.
func (s *Spill) Writes(lo, hi []byte) (writes bool, err error) {
	if hi == nil {
		hi = append(bytes.Clone(lo), 0)
	}
	defer pageio.Guard(pageio.Arm(), &err, "a file of a transaction")
	for _, p := range s.parts {
		it := p.Iterator()
		writes = it.SeekGE(lo) && bytes.Compare(it.Entry().Key, hi) < 0
		err := it.Err()
		it.Close()
		if writes || err != nil {
			return writes, err
		}
		if writes, err := p.RangeDeletes().ChangedSince(lo, hi, 0); writes || err != nil {
			return writes, err
		}
	}
	return false, nil
}

// Ranges returns the range deletes. Their versions only have a meaning within the Spill. They
// are valid until Discard.
func (s *Spill) Ranges() (sources []rangedel.Source) {
	for _, p := range s.parts {
		if t := p.RangeDeletes(); !t.Empty() {
			s.aliased = true
			sources = append(sources, t)
		}
	}
	return sources
}

// Value returns the value of e, a separated entry that Get or an iterator found
// under key. It is never nil, and valid until Discard, unless it is own: then it is in dst,
// if the capacity of that is enough, or in memory of its own.
func (s *Spill) Value(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error) {
	return s.values.get(key, e, dst)
}

// Entries is how many entries the parts have.
func (s *Spill) Entries() (n int64) {
	for _, p := range s.parts {
		n += int64(p.Meta().Entries)
	}
	return n
}

// Bytes is the length of the records added.
func (s *Spill) Bytes() int64 { return s.bytes }

// Written is the length of all files that were written.
func (s *Spill) Written() int64 { return s.runs + s.values.finishedBytes() }

// Output is what Finish has finished: one run, its value segments, and their
// records that no entry leads to.
func (s *Spill) Output() Output {
	out := Output{Values: slices.Clone(s.values.finished), Dead: s.dead}
	if len(s.parts) > 0 {
		out.Run = s.parts[0].written
	}
	return out
}

// Keep makes Discard leave the run and the value segments. Call it when they belong to the
// store, or when that is not known, as after a failed edit of the manifest.
func (s *Spill) Keep() { s.kept = true }

// Lent reports whether bytes of the files may have been handed out.
func (s *Spill) Lent() bool { return s.aliased }

// Discard closes the files. With remove, it also removes them, except those that Keep was
// called for. Nothing that was handed out is valid afterwards. A second call does nothing.
func (s *Spill) Discard(remove bool) {
	for _, p := range s.parts {
		_ = p.Close()
		if remove && !s.kept {
			s.removeRun(p.Meta())
		}
	}
	for _, p := range s.retired {
		// They were compacted, so the store never gets them.
		_ = p.Close()
		if remove {
			s.removeRun(p.Meta())
		}
	}
	s.values.discardSegments(remove && !s.kept)
	s.parts, s.retired = nil, nil
	if s.err == nil {
		s.err = errs.ErrTxnDone
	}
}

// removeRun removes the files of a run.
func (s *Spill) removeRun(m *layout.RunMeta) {
	for _, f := range m.Files {
		s.cfg.removeFile(s.cfg.Dir, filename.Run, f.Num)
	}
}
