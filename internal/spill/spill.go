// Package spill keeps the pending writes of one transaction that outgrew its
// memory: keys and small values in sorted runs, large values in value segments,
// all in files of their own that no manifest names. What is in them says version
// 0, as nobody knows yet when the transaction will commit.
//
// A Spill ends in one of two ways: Finish makes one durable run of it, which an
// edit of the manifest may then add to the store with a stamp, its version; or
// Discard removes the files. A crash leaves them to the next Open, which removes
// files that nothing names.
package spill

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/vfs"
)

// Config says where the files are written and for which store.
type Config struct {
	FS           vfs.FS
	Dir          string // of runs
	ValueDir     string // of value segments
	UUID         [16]byte
	Seed         uint64               // of the store's key hash
	NextNum      func() entry.FileNum // the number of each file
	SegmentBytes int64                // length at which a value segment ends
	RunFileBytes int64                // likewise for a file of a run
	FilterKeys   int                  // for how many keys a filter of a run is made; 0 = run.DefaultFilterKeys
	NoMap        bool                 // read files without mapping them
	Cache        *run.Cache           // of run chunks, where files are not mapped
	Files        *pageio.Files        // opens what is read; nil: without a limit
}

// Spill is used by one goroutine at a time, save for Value, which may be called
// by others beside it.
type Spill struct {
	cfg     Config
	parts   []*part         // sorted runs, newest first
	retired []*part         // merged, but what was handed out of them is in use
	lent    bool            // something of the parts was handed out
	dead    manifest.Deaths // records of overwritten values
	values  []compact.ValueSegment
	bytes   int64 // of records added
	runs    int64 // bytes of runs written
	err     error // the first failure; nothing can be added after it
	kept    bool  // the files belong to the store

	writer  *segment.ValueWriter // the segment being filled
	written uint64               // bytes of its values

	mu       sync.RWMutex // guards the map, which Value reads
	segments map[entry.FileNum]*segment.Reader
}

// part is one sorted run, of a level: the number of merges behind it.
type part struct {
	*run.Reader
	level int
}

// New returns an empty Spill; it creates no file before there is something to write.
func New(cfg Config) *Spill {
	return &Spill{cfg: cfg, segments: map[entry.FileNum]*segment.Reader{}}
}

// Add writes records, encoded with version 0 one after the other, the later of
// two with one key being the newer. They may be reused when it returns. After an
// error, which sticks, the Spill can only be read and discarded.
func (s *Spill) Add(ctx context.Context, records []byte) error {
	if s.err == nil && len(records) > 0 {
		s.err = s.add(ctx, records)
	}
	return s.err
}

func (s *Spill) add(ctx context.Context, records []byte) error {
	w := s.newRun(true)
	for _, at := range newestByKey(records) {
		if err := s.addRecord(w, records[at:]); err != nil {
			w.Abort()
			return err
		}
	}
	if s.writer != nil { // readers will follow handles
		if err := s.writer.Flush(); err != nil {
			w.Abort()
			return err
		}
	}
	meta, err := w.Finish()
	if err != nil {
		return err
	}
	if err := s.open(meta, 0, 0); err != nil {
		return err
	}
	s.bytes += int64(len(records))
	return s.mergeLevels(ctx)
}

// addRecord writes the record at the start of rec: its value, if it has its own
// checksum and a handle may lead to it, to a value segment.
func (s *Spill) addRecord(w *run.Writer, rec []byte) error {
	r, err := entry.DecodeRecord(rec)
	if err != nil {
		return err
	}
	e := entry.Entry{Key: r.Key, Value: r.Value, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	if r.Own && r.Size >= manifest.Granule {
		e.Value, e.Separated = nil, true
		if e.Handle, err = s.addValue(rec[:r.Size], uint64(len(r.Value))); err != nil {
			return err
		}
	}
	return w.Add(&e)
}

// newRun begins a run.
func (s *Spill) newRun(unsynced bool) *run.Writer {
	return run.NewWriter(run.WriterConfig{
		FS: s.cfg.FS, Dir: s.cfg.Dir, UUID: s.cfg.UUID, Seed: s.cfg.Seed, NextNum: s.cfg.NextNum, FileBytes: s.cfg.RunFileBytes,
		FilterKeys: s.cfg.FilterKeys, Unsynced: unsynced,
	})
}

// open opens a finished run in the place of the newest n parts.
func (s *Spill) open(meta run.Meta, n, level int) error {
	s.runs += int64(meta.FileBytes())
	r, err := run.Open(run.OpenConfig{FS: s.cfg.FS, Dir: s.cfg.Dir, UUID: s.cfg.UUID, Seed: s.cfg.Seed, NoMap: s.cfg.NoMap, Cache: s.cfg.Cache, Files: s.cfg.Files}, meta)
	if err != nil {
		s.removeRun(&meta)
		return err
	}
	for _, p := range s.parts[:n] {
		if s.lent {
			s.retired = append(s.retired, p)
			continue
		}
		_ = p.Close()
		s.removeRun(p.Meta())
	}
	s.parts = slices.Concat([]*part{{r, level}}, s.parts[n:])
	return nil
}

// Get finds the pending write of a key with this hash and fills dst, whose
// Version is then 0. dst.Value is valid until Discard.
func (s *Spill) Get(key []byte, hash uint64, dst *entry.Entry) (found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a file of a transaction")
	for _, p := range s.parts {
		if !p.MayContain(key, hash) {
			continue
		}
		if found, err := p.Get(key, hash, math.MaxUint64, dst); found || err != nil {
			s.lent = s.lent || found
			return found, err
		}
	}
	return false, nil
}

// Iterators walk the parts, newest first; entries with one key hide those of
// later iterators. Their entries are valid until Discard, as far as any are.
func (s *Spill) Iterators() []iterator.Iterator {
	s.lent = true
	sources := make([]iterator.Iterator, len(s.parts))
	for i, p := range s.parts {
		sources[i] = p.Iterator()
	}
	return sources
}

// Value returns the value of e, a separated entry that Get or an iterator found
// under key. It is never nil, and valid until Discard.
func (s *Spill) Value(key []byte, e *entry.Entry) ([]byte, error) {
	s.mu.RLock()
	r := s.segments[e.Handle.Segment]
	s.mu.RUnlock()
	if r == nil {
		return nil, errs.NewCorruption(filename.Of(filename.Value, e.Handle.Segment), int64(e.Handle.Offset), "a transaction has no such segment")
	}
	return r.Value(e.Handle, key, 0)
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
func (s *Spill) Written() int64 {
	n := s.runs
	for _, v := range s.values {
		n += v.Size
	}
	return n
}

// Output is what Finish has finished: one run, its value segments, and their
// records that no entry leads to.
func (s *Spill) Output() compact.Output {
	out := compact.Output{Values: slices.Clone(s.values)}
	if len(s.parts) > 0 {
		out.Run = *s.parts[0].Meta()
	}
	for _, list := range s.dead.Lists() {
		out.Dead.Take(list)
	}
	return out
}

// Keep says that run and value segments belong to the store, or that nobody knows
// whether they do: Discard leaves them.
func (s *Spill) Keep() { s.kept = true }

// Discard closes the files and, with remove, removes them, save those that
// belong to the store. Nothing that was handed out is valid afterwards. It does
// nothing the second time.
func (s *Spill) Discard(remove bool) {
	for _, p := range s.parts {
		_ = p.Close()
		if remove && !s.kept {
			s.removeRun(p.Meta())
		}
	}
	for _, p := range s.retired {
		_ = p.Close()
		if remove {
			s.removeRun(p.Meta())
		}
	}
	s.discardValues(remove && !s.kept)
	s.parts, s.retired, s.values = nil, nil, nil
	if s.err == nil {
		s.err = errs.ErrTxnDone
	}
}
