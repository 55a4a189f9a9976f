package engine

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/conflict"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// A transaction larger than its memory commits without the journal: its keys are in a run
// already, and one edit adds that run to the store. A read stops at the first hit, so all older
// entries must be in older runs. Therefore the memtables are flushed first, and nothing else is
// committed until the edit is recorded:
//
//   - When the edit is recorded, all earlier commits are in runs. So what a replay of the
//     journal finds is newer than the transaction.
//   - Its run is newer than all others, in order and in version.
//   - Before the edit nothing names its files. After it the manifest does.

// Spill is the writes of a transaction in files. One goroutine uses it at a time; others may
// call Value at the same time. End it by Discard, also after Commit.
type Spill struct {
	*spilled
	cleanup runtime.Cleanup
}

// spilled is the state of a Spill. It is a type of its own, so that it can be released after
// the garbage collector has found that the user has lost the Spill.
type spilled struct {
	*compact.Spill // the files; methods that need the store are defined below
	store          *Spills

	began   time.Time
	checked entry.Version // Prepare has looked for conflicts up to this version
	deleted [][]byte      // keys to seek from after the commit, see searcher
	key     crypt.ID      // the data key that was current when the Spill began
	end     sync.Once
	ended   sync.Once // the use of key
}

// Spills makes Spills. Close waits while one of them writes.
type Spills struct {
	*state
	coder   *codec.Coder
	changes *changes
	work    *Worker
	keys    *keyUse
}

// New returns an empty Spill.
func (s *Spills) New() *Spill {
	h := &spilled{store: s, began: time.Now(), key: s.keys.beginWork(), Spill: compact.NewSpill(compact.SpillConfig{
		Store: s.cfg.Store, NextNum: s.files.Next,
		SegmentBytes: s.cfg.SegmentBytes, RunFileBytes: s.cfg.RunFileBytes, FilterKeys: view.FilterKeys(s.cfg.Memory),
		Coder: s.coder, Cache: s.files.Chunks, Files: s.files.Open,
	})}
	handle := &Spill{spilled: h}
	handle.cleanup = runtime.AddCleanup(handle, (*spilled).leaked, h)
	return handle
}

// work runs fn; Close waits for it. The context of fn ends when Close begins, too.
func (s *spilled) work(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.store.lifetime.Do(ctx, fn)
}

// Add is compact.Spill.Add. It returns ErrNoSpace if only the reserve is left, which pending
// writes may not use.
func (s *spilled) Add(ctx context.Context, records []byte, last int, ranges *rangedel.Set) error {
	return s.write(ctx, func(ctx context.Context) error { return s.Spill.Add(ctx, records, last, ranges) })
}

// AddLarge is compact.Spill.AddLarge. It returns ErrNoSpace as Add does.
func (s *spilled) AddLarge(ctx context.Context, e *entry.Entry) error {
	return s.write(ctx, func(ctx context.Context) error { return s.Spill.AddLarge(ctx, e) })
}

// write runs fn, which writes files, unless the disk is full.
func (s *spilled) write(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.work(ctx, func(ctx context.Context) error {
		if s.store.work.disk.onlyReserve.Load() {
			if err := s.store.work.disk.admitPayload(ctx, nil); err != nil {
				return err
			}
		}
		before := s.Written()
		err := fn(ctx)
		s.store.work.disk.countWritten(int(s.Written() - before))
		return err
	})
}

// Prepare does the part of a commit that others need not wait for: it makes the files
// durable, flushes memtables, and checks c against what was committed so far.
func (s *spilled) Prepare(ctx context.Context, c conflict.Check) error {
	if err := s.work(ctx, s.Finish); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	// Others go on writing, so the memtable is never quite empty. Commit flushes the rest.
	t := s.store
	for range maxEmptyings {
		if v := t.views.Current(); len(v.Tables) == 1 && v.Active().Bytes() <= int64(t.cfg.MemtableBytes)/emptyShare {
			break
		}
		if err := t.work.Flush(ctx); err != nil {
			return err
		}
	}
	p, err := t.views.Acquire(0)
	if err != nil {
		return err
	}
	defer p.Release()
	s.checked = p.Version()
	if err := s.check(ctx, p, &c); err != nil {
		return err
	}
	if s.Output().Run.Deletes > 0 {
		s.deleted = someDeletes(iterator.Merge(s.Iterators(nil, 0)))
	}
	return nil
}

// mapped names the file in the error of a memory fault, if the code below doesn't know the name.
const mapped = "a mapped file"

const (
	maxEmptyings = 4  // flushes before a Commit, while others go on writing
	emptyShare   = 32 // Commit flushes at most 1/32 of a memtable itself, while other commits wait
)

// check returns a conflict.Refusal if c does not hold for what was committed up to p.
func (s *spilled) check(ctx context.Context, p *view.Pin, c *conflict.Check) (err error) {
	if c.AsksNothing() {
		return nil
	}
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	p.SortSince(c.Since)
	if c.Isolation == conflict.SnapshotIsolation {
		return s.overwritten(ctx, p, c.Since)
	}
	c.Reads.Prepare() // now, and not while other commits wait
	return c.Reads.Check(p, c.Since)
}

// overwritten returns a conflict.Refusal if a key that the Spill writes is newer than
// since.
func (s *spilled) overwritten(ctx context.Context, p *view.Pin, since entry.Version) error {
	it := iterator.Merge(s.Iterators(nil, 0))
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return errs.Ended(ctx)
		}
		key := it.Entry().Key
		newest, found, err := p.Newest(key, hash.Sum(s.store.cfg.Seed, key), since)
		if err != nil {
			return err
		}
		if found && newest > since {
			return conflict.RefuseKey(key)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	ranges := rangedel.NewForwardCover(entry.MaxVersion, s.Ranges()...)
	defer ranges.Close()
	return ranges.EachRange([]byte{0}, func(lo, hi []byte) error {
		changed, err := p.ChangedSince(lo, hi, since)
		if changed && err == nil {
			err = conflict.RefuseRange(lo, hi)
		}
		return err
	})
}

// Commit adds what Prepare has made to the store, as version v. First it checks c against what
// was committed since Prepare. The transaction is durable when Commit returns nil, and visible
// once v is published. Commit runs in the place of a commit leader. After an error that is not
// ErrStopped nothing was written.
func (s *spilled) Commit(v entry.Version, c conflict.Check) (err error) {
	t := s.store
	work := Work{Kind: "spill", Work: report.Work{Reason: "transaction larger than its memory", BytesIn: s.Bytes(), BytesOut: s.Written()}}
	defer func() { t.reportWork(work, s.began, err) }()
	if err := s.checkSince(&c); err != nil {
		return err
	}
	if err := s.flushAll(); err != nil {
		return err
	}
	out := s.Output()
	for i := range out.Values {
		out.Values[i].Stamp = v
	}
	edit := &layout.Edit{AddRuns: layout.NewRuns(out.Run, layout.Upper), LastVersion: v}
	for i := range edit.AddRuns {
		r := &edit.AddRuns[i]
		r.Stamp, r.MinVersion, r.MaxVersion = v, v, v
		work.EntriesIn = int64(r.Entries)
	}
	if err = t.apply(edit, &out, view.Change{}); err == nil {
		t.work.searcher.deletedAll(s.deleted, int64(s.Output().Run.Deletes))
	}
	// After a failed edit the manifest may name the files: the next Open finds out.
	if err == nil || t.lifetime.failed() != nil {
		s.Keep()
	}
	return err
}

// checkSince returns a conflict.Refusal if c does not hold for what was committed since
// Prepare. There are few such changes, and the transaction has read or written much. So each
// change is looked up in its reads or writes, not the other way round.
func (s *spilled) checkSince(c *conflict.Check) error {
	if c.AsksNothing() {
		return nil
	}
	if c.Isolation == conflict.Serializable {
		return s.read(c.Reads)
	}
	return s.eachSince(func(lo, hi []byte) error {
		switch wrote, err := s.Writes(lo, hi); {
		case err != nil || !wrote:
			return err
		case hi == nil:
			return conflict.RefuseKey(lo)
		}
		return conflict.RefuseRange(lo, hi)
	})
}

// read returns a conflict.Refusal if something of reads has changed since Prepare. Ranges that were
// deleted are laid over each other first: to look each one up would take a walk of all reads.
func (s *spilled) read(reads *conflict.ReadSet) error {
	var ranges *rangedel.Set
	err := s.eachSince(func(lo, hi []byte) error {
		if hi == nil {
			return reads.Refuse(lo)
		}
		ranges = ranges.With(rangedel.Delete{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Version: entry.MaxVersion})
		return nil
	})
	if err != nil || ranges == nil {
		return err
	}
	return reads.Check(deleted{ranges}, s.checked)
}

// deleted is the conflict.Changes of ranges that were deleted.
type deleted struct{ ranges *rangedel.Set }

func (d deleted) Newest(key []byte, _ uint64, _ entry.Version) (entry.Version, bool, error) {
	v := d.ranges.Newest(key, entry.MaxVersion)
	return v, v > 0, nil
}

func (d deleted) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	return d.ranges.ChangedSince(lo, hi, since), nil
}

// eachSince is view.Pin.EachSince, for what was committed since Prepare. It runs in the
// place of a commit leader.
func (s *spilled) eachSince(fn func(lo, hi []byte) error) error {
	s.store.changes.leader.Enter()
	defer s.store.changes.leader.Leave()
	return s.store.changes.leader.EachSince(s.checked, fn)
}

// flushAll writes everything that was committed into runs. It runs in the place of a commit
// leader.
func (s *spilled) flushAll() error {
	if err := s.store.lifetime.stopped(); err != nil {
		return err
	}
	if err := s.store.work.writer.sealAny(); err != nil {
		return err
	}
	return s.store.work.flusher.flushForCommit(s.store.lifetime.closing)
}

// Discard removes the files, except those that Commit has added to the store. What was read of
// them is not valid any more. It may be called more than once.
func (s *Spill) Discard() {
	s.cleanup.Stop()
	s.discard()
}

// leaked is discard for a Spill that was lost without Discard. If it has handed out memory, that
// may be in use: then its files stay open, and the next Open removes them.
func (s *spilled) leaked() {
	if !s.Lent() {
		s.discard()
	} else {
		s.over()
	}
}

// over ends the use of the data key. It may be called more than once.
func (s *spilled) over() {
	if s.store.cfg.Ring != nil {
		s.ended.Do(func() { s.store.keys.endWork(s.key) })
		s.store.tasks.kick() // a change of keys may have waited
	}
}

// discard removes the files. If the store is closed, it leaves them to the next Open, as another
// process may have the store open now.
func (s *spilled) discard() {
	s.end.Do(func() {
		s.store.lifetime.working.RLock()
		defer s.store.lifetime.working.RUnlock()
		s.Spill.Discard(!s.store.views.Closed())
		s.over()
	})
}
