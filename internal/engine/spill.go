package engine

import (
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
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/conflict"
	"github.com/brockdb/brock/internal/txn/spill"
	"github.com/brockdb/brock/internal/version/layout"
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

// Spill is the writes of a transaction in files, and their way into the store. One goroutine uses
// it at a time; others may call Value at the same time. End it by Discard, also after Commit.
type Spill struct {
	*spilled
	cleanup runtime.Cleanup
}

// spilled is the state of a Spill. It is a type of its own, so that it can be released after
// the garbage collector has found that the user has lost the Spill.
type spilled struct {
	*spill.Files // methods that need the store are defined below
	store        *Spills

	began   time.Time
	checked entry.Version // the last check has looked for conflicts up to this version
	deleted [][]byte      // keys to seek from after the commit, see searcher
	key     crypt.ID      // the data key that was current when the Spill began
	ended   sync.Once
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
	files := spill.New(spill.Config{Files: s.files, NoMap: s.cfg.NoMap, SegmentBytes: s.cfg.SegmentBytes, Coder: s.coder})
	h := &Spill{spilled: &spilled{Files: files, store: s, began: time.Now(), key: s.keys.beginWork()}}
	h.cleanup = runtime.AddCleanup(h, (*spilled).leaked, h.spilled)
	return h
}

// Add is spill.Files.Add. It returns ErrNoSpace if only the reserve is left, which pending
// writes may not use.
func (s *spilled) Add(ctx context.Context, records []byte, before int, ranges *rangedel.Set) error {
	return s.write(ctx, func(ctx context.Context) error { return s.Files.Add(ctx, records, before, ranges) })
}

// AddLarge is spill.Files.AddLarge. It returns ErrNoSpace as Add does.
func (s *spilled) AddLarge(ctx context.Context, e *entry.Entry) error {
	return s.write(ctx, func(ctx context.Context) error { return s.Files.AddLarge(ctx, e) })
}

// write runs fn, which writes files, unless the disk is full. Close waits for it.
func (s *spilled) write(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.store.lifetime.do(ctx, func(ctx context.Context) error {
		disk, before := s.store.work.disk, s.Written()
		if err := disk.admitPayload(ctx, nil); err != nil {
			return err
		}
		err := fn(ctx)
		disk.countWritten(int(s.Written() - before))
		return err
	})
}

// emptyShare: Commit flushes at most 1/32 of a memtable itself, while other commits wait.
const emptyShare = 32

// spilledFile names the file in the error of a memory fault.
const spilledFile = "a file of a transaction"

// Prepare does the part of a commit that others need not wait for: it makes the files
// durable, flushes memtables, and checks c against what was committed so far.
func (s *spilled) Prepare(ctx context.Context, c conflict.Check) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, spilledFile)
	t := s.store
	if err := t.lifetime.do(ctx, s.Finish); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	// Others go on writing. The second round covers what came during the first, which may have taken
	// long, and leaves little to Commit.
	for range 2 {
		if v := t.views.Current(); len(v.Tables) > 1 || v.Active().Bytes() > int64(t.cfg.MemtableBytes)/emptyShare {
			if err := t.work.Flush(ctx); err != nil {
				return err
			}
		}
		if err := s.check(ctx, &c); err != nil {
			return err
		}
	}
	if s.Output().Run.Deletes > 0 {
		s.deleted = someDeletes(iterator.Merge(s.Iterators(nil)))
	}
	return nil
}

// check returns a conflict.Refusal if c does not hold for what was committed since the last check,
// or since the transaction began.
func (s *spilled) check(ctx context.Context, c *conflict.Check) (err error) {
	if c.AsksNothing() {
		return nil
	}
	var of conflict.Set = written{s, ctx}
	if c.Isolation == conflict.Serializable {
		c.Reads.Prepare() // now, and not while other commits wait
		of = c.Reads
	}
	s.checked, err = s.store.changes.check(of, max(s.checked, c.Since))
	return err
}

// written is the keys and ranges that a Spill writes, as a conflict.Set.
type written struct {
	*spilled
	ctx context.Context // ends a Check
}

// Len is how many keys are written.
func (w written) Len() int { return int(w.Entries()) }

// Refuse returns a conflict.Refusal if key is written or in a range that is deleted.
func (w written) Refuse(key []byte) error {
	var e entry.Entry
	wrote, err := w.Get(key, hash.Sum(w.store.cfg.Seed, key), &e)
	if wrote {
		return conflict.RefuseKey(key)
	}
	return err
}

// Check returns a conflict.Refusal if anything that is written was changed after since.
func (w written) Check(changes conflict.Changes, since entry.Version) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, spilledFile)
	it := iterator.Merge(w.Iterators(nil))
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && w.ctx.Err() != nil {
			return errs.Ended(w.ctx)
		}
		key := it.Entry().Key
		newest, found, err := changes.Newest(key, hash.Sum(w.store.cfg.Seed, key), since)
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
	ranges := rangedel.NewForwardCover(entry.MaxVersion, w.Ranges()...)
	defer ranges.Close()
	return ranges.EachRange([]byte{0}, func(lo, hi []byte) error {
		changed, err := changes.ChangedSince(lo, hi, since)
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
	work := Work{Kind: "spill", Work: report.Work{
		Reason: "transaction larger than its memory", EntriesIn: s.Entries(), BytesIn: s.Bytes(), BytesOut: s.Written(),
	}}
	defer func() { t.reportWork(work, s.began, err) }()
	if err := s.check(t.lifetime.closing, &c); err != nil {
		return err
	}
	if err := s.flushAll(); err != nil {
		return err
	}
	out := s.Output()
	for i := range out.Values {
		out.Values[i].Stamp = v
	}
	out.Run.Stamp, out.Run.MinVersion, out.Run.MaxVersion = v, v, v
	edit := &layout.Edit{AddRuns: layout.NewRuns(out.Run, layout.Upper), LastVersion: v}
	// Whatever comes of it: apply has removed the files, or the manifest may name them.
	s.Keep()
	if err := t.apply(edit, &out, change{}); err != nil {
		return err
	}
	t.work.searcher.deletedAll(s.deleted, int64(out.Run.Deletes))
	return nil
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
	s.end(true)
	runtime.KeepAlive(s) // else leaked could come first
}

// leaked is Discard for a Spill that was lost without it. If it has handed out memory, that
// may be in use: then its files stay open, and the next Open removes them.
func (s *spilled) leaked() { s.end(!s.Lent()) }

// end ends the use of the data key and, with discard, of the files. It removes these, unless the
// store is closed: then they are left to the next Open, as another process may have the store open
// now.
func (s *spilled) end(discard bool) {
	s.ended.Do(func() {
		t := s.store
		if discard {
			t.lifetime.working.RLock()
			s.Files.Discard(!t.views.Closed())
			t.lifetime.working.RUnlock()
		}
		if t.cfg.Ring != nil {
			t.keys.endWork(s.key)
			t.tasks.kick() // a change of keys may have waited
		}
	})
}
