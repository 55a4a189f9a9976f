package tree

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/spill"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// A transaction that outgrew its memory commits without the journal: its keys are
// a run already, and one edit adds that to the store. For a read to stop at the
// first hit, all that is older must lie below it: so memtables are flushed first,
// and nobody else commits from then until the edit is recorded. In other words:
//
//   - When the edit is recorded, all commits of the journal are older than the
//     transaction, and all of them are in runs: what a replay finds is newer.
//   - Its run is newer than all others, in order and in version.
//   - Before the edit nothing names its files, after it the manifest does.

// Spill is a transaction's writes in files. It is used by one goroutine at a
// time, save for Value. It ends with Discard, also after a Commit.
type Spill struct {
	*spilled
	cleanup runtime.Cleanup
}

// spilled is what a Spill holds, which is given back if that is leaked.
type spilled struct {
	store   *spills
	files   *spill.Spill
	began   time.Time
	checked entry.Version   // conflicts up to this version were looked for
	emptied []emptied.Range // what the transaction leaves empty, as of then
	end     sync.Once
}

// spills makes Spills, and has the store stay open while they work.
type spills struct {
	cfg        *Config
	views      *view.Set
	files      *files
	coder      *codec.Coder
	leader     *view.Pin
	emptied    *emptied.Tracker
	disk       *diskSpace
	life       *lifetime
	count      *counters
	writer     *writer
	flusher    *flusher
	installer  *installer
	background *background

	mu sync.RWMutex // held for reading while a transaction writes or removes files
}

// begin returns an empty Spill.
func (s *spills) begin() *Spill {
	h := &spilled{store: s, began: time.Now(), files: spill.New(spill.Config{
		FS: s.cfg.FS, Dir: s.cfg.Dir, ValueDir: s.cfg.ValueDir, UUID: s.cfg.UUID, Seed: s.cfg.Seed, NextNum: s.files.next,
		SegmentBytes: s.cfg.SegmentBytes, RunFileBytes: s.cfg.RunFileBytes, FilterKeys: filterKeys(s.cfg.Memory), NoMap: s.cfg.NoMap,
		Coder: s.coder, Cache: s.files.chunks, Files: s.files.open,
	})}
	handle := &Spill{spilled: h}
	handle.cleanup = runtime.AddCleanup(handle, (*spilled).discard, h)
	return handle
}

// work runs fn while the store surely stays open; ctx also ends with the store.
func (s *spilled) work(ctx context.Context, fn func(ctx context.Context) error) error {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	if s.store.views.Closed() {
		return errs.ErrClosed
	}
	ctx, end := s.store.life.until(ctx)
	defer end()
	return vfs.NoSpace(fn(ctx))
}

// Add writes encoded records of version 0, which may be reused afterwards; the
// later of two with one key is the newer. The last is the transaction's last-th
// record, and ranges are its range deletes so far, with such numbers as versions. A
// full disk is ErrNoSpace, and the reserve is not for them. After an error, which
// sticks, the Spill can only be read and discarded.
func (s *spilled) Add(ctx context.Context, records []byte, last int, ranges *tombstone.Set) error {
	return s.work(ctx, func(ctx context.Context) error {
		if s.store.disk.refusing.Load() {
			if err := s.store.disk.admit(ctx, nil); err != nil {
				return err
			}
		}
		before := s.files.Written()
		err := s.files.Add(ctx, records, last, ranges)
		s.store.disk.spend(int(s.files.Written() - before))
		return err
	})
}

// Get finds the pending write of a key with this hash and fills dst; its Version
// is 0, and dst.Value valid until Discard. A range delete gives a delete of the key.
func (s *spilled) Get(key []byte, h uint64, dst *entry.Entry) (bool, error) {
	return s.files.Get(key, h, dst)
}

// Value returns the value of a separated entry that Get or an iterator found.
func (s *spilled) Value(key []byte, e *entry.Entry, dst []byte) ([]byte, error) {
	return s.files.Value(key, e, dst)
}

// Iterators walk the pending writes that ranges, all range deletes so far, don't
// cover, as version v; entries of one key hide those of later iterators.
func (s *spilled) Iterators(ranges *tombstone.Set, v entry.Version) []iterator.Iterator {
	return s.files.Iterators(ranges, v)
}

// Entries is how many keys the finished Spill writes.
func (s *spilled) Entries() int64 { return s.files.Entries() }

// Bytes is the length of the records added.
func (s *spilled) Bytes() int64 { return s.files.Bytes() }

// Prepare does what a Commit needs and others need not wait for: the files are
// made durable, memtables are flushed, and c is checked against what was committed so far.
func (s *spilled) Prepare(ctx context.Context, c conflict.Check) error {
	if err := s.work(ctx, s.files.Finish); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	for range maxEmptyings {
		if v := s.store.views.Current(); len(v.Tables) == 1 && v.Active().Bytes() <= int64(s.store.cfg.MemtableBytes)/emptyShare {
			break
		}
		if err := s.store.background.flush(ctx); err != nil {
			return err
		}
	}
	p, err := s.store.views.Acquire(0)
	if err != nil {
		return err
	}
	defer p.Release()
	s.checked = p.Version()
	if err := s.check(ctx, p, &c); err != nil {
		return err
	}
	if s.files.Output().Run.Deletes > 0 {
		s.emptied = s.store.emptied.SearchWrites(iterator.Merge(s.files.Iterators(nil, 0)), p.View())
	}
	return nil
}

// leavesEmpty are the ranges in which nothing is left once the transaction is version v.
func (s *spilled) leavesEmpty(v entry.Version) (none emptied.Change) {
	if len(s.emptied) == 0 {
		return none
	}
	var keys [][]byte // that were committed meanwhile
	_, err := s.touchedSince(func(lo, hi []byte) (bool, error) {
		if hi == nil {
			keys = append(keys, bytes.Clone(lo))
		}
		return len(keys) > mostTouched, nil
	})
	if err != nil || len(keys) > mostTouched {
		return none
	}
	return emptied.Committed(s.emptied, keys, v)
}

// mostTouched is after how many keys of others a transaction's deletes are not worth
// looking at any more.
const mostTouched = 1 << 14

// mapped is the file that a memory fault is blamed on where nothing below knows better.
const mapped = "a mapped file"

const (
	maxEmptyings = 4  // flushes before a Commit, while others go on writing
	emptyShare   = 32 // part of a memtable that a Commit flushes itself, with everybody waiting
)

// check returns errs.ErrConflict if c does not hold for what was committed up to p.
func (s *spilled) check(ctx context.Context, p *view.Pin, c *conflict.Check) (err error) {
	if c.AsksNothing() {
		return nil
	}
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	var changed bool
	if c.Isolation == conflict.SnapshotIsolation {
		changed, err = s.overwritten(ctx, p, c.Since)
	} else {
		c.Reads.Prepare() // now, rather than with other commits waiting
		changed, err = c.Reads.Check(p, c.Since)
	}
	if err == nil && changed {
		return errs.ErrConflict
	}
	return err
}

// overwritten reports whether a key that the Spill writes is newer than since.
func (s *spilled) overwritten(ctx context.Context, p *view.Pin, since entry.Version) (bool, error) {
	it := iterator.Merge(s.files.Iterators(nil, 0))
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		key := it.Entry().Key
		newest, found, err := p.Newest(key, hash.Sum(s.store.cfg.Seed, key), since)
		if err != nil || found && newest > since {
			return err == nil, err
		}
	}
	if err := it.Err(); err != nil {
		return false, err
	}
	for _, t := range s.files.Ranges() {
		if changed, err := p.ChangedSince(t.Lo, t.Hi, since); changed || err != nil {
			return changed && err == nil, err
		}
	}
	return false, nil
}

// Commit adds what Prepare has made to the store, as version v, durable when it
// returns, and visible once v is published. It checks c against what was committed
// since Prepare. It runs in the place of a commit leader.
// An error that is not ErrStopped has written nothing.
func (s *spilled) Commit(v entry.Version, c conflict.Check) (err error) {
	work := Work{Kind: "spill", WorkInfo: WorkInfo{Reason: "transaction larger than its memory", BytesIn: s.files.Bytes(), BytesOut: s.files.Written()}}
	defer func() { s.store.count.report(work, s.began, err) }()
	if err := s.checkSince(&c); err != nil {
		return err
	}
	if err := s.flushAll(); err != nil {
		return err
	}
	out := s.files.Output()
	for i := range out.Values {
		out.Values[i].Stamp = v
	}
	edit := &layout.Edit{AddRuns: newRuns(out.Run, layout.Upper), LastVersion: v}
	for i := range edit.AddRuns {
		r := &edit.AddRuns[i]
		r.Stamp, r.MinVersion, r.MaxVersion = v, v, v
		work.EntriesIn = int64(r.Entries)
	}
	leaves := s.leavesEmpty(v)
	if err = s.store.installer.install(edit, &out, change{hidden: view.Unknown}); err == nil {
		s.store.views.Learn(leaves)
	}
	if err == nil || s.store.life.failed() != nil {
		s.files.Keep()
	}
	return err
}

// checkSince returns errs.ErrConflict if c does not hold for what was committed
// since Prepare. That is little beside what the transaction has read or written, so
// each change is looked up in it, rather than the other way round.
func (s *spilled) checkSince(c *conflict.Check) error {
	if c.AsksNothing() {
		return nil
	}
	touches := s.files.Writes
	if c.Isolation == conflict.Serializable {
		touches = func(lo, hi []byte) (bool, error) { return c.Reads.Touches(lo, hi), nil }
	}
	touched, err := s.touchedSince(touches)
	if err == nil && touched {
		return errs.ErrConflict
	}
	return err
}

// Discard gives up the files, save those that belong to the store. Nothing that
// was read of them is valid afterwards. It may be called more than once.
func (s *Spill) Discard() {
	s.cleanup.Stop()
	s.discard()
}

// discard leaves the files of a store that is closed to the next Open: somebody
// else may have it open by now.
func (s *spilled) discard() {
	s.end.Do(func() {
		s.store.mu.RLock()
		defer s.store.mu.RUnlock()
		s.files.Discard(!s.store.views.Closed())
	})
}

// touchedSince is view.Pin.TouchedSince, for what was committed since Prepare. It runs
// in the place of a commit leader.
func (s *spilled) touchedSince(touches func(lo, hi []byte) (bool, error)) (touched bool, err error) {
	s.store.leader.Enter()
	defer s.store.leader.Leave()
	return s.store.leader.TouchedSince(s.checked, touches)
}

// flushAll brings everything that was committed into runs. It runs in the place of a
// commit leader.
func (s *spilled) flushAll() error {
	if err := s.store.life.stopped(); err != nil {
		return err
	}
	if err := s.store.writer.sealAny(); err != nil {
		return err
	}
	return s.store.flusher.all(s.store.life.closing)
}
