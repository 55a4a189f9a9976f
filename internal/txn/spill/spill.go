package spill

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/view"
)

// Store is the store that a Spill commits to. Its methods may be called at any time, but for Add.
type Store interface {
	// Begin says that files are going to be written, and End that no more are. Until then the data
	// key of the time of Begin stays, and later ones.
	Begin() (key crypt.ID, now time.Time)
	End(key crypt.ID)
	// Do runs fn, which writes files; Close waits for it. The context of fn ends with ctx, or when
	// Close begins.
	Do(ctx context.Context, fn func(ctx context.Context) error) error
	// Write is Do for pending writes; fn returns how many bytes it wrote. It returns ErrNoSpace if
	// only the reserve is left, which these may not use.
	Write(ctx context.Context, fn func(ctx context.Context) (bytes int64, err error)) error
	// Remove runs fn, which closes files, and removes them if that may be done: not once the store
	// is closed, as another process may have it open then.
	Remove(fn func(may bool))
	// Settle flushes memtables if they have more than FlushAll should flush.
	Settle(ctx context.Context) error
	// FlushAll writes everything that was committed into runs. It runs in the place of a commit
	// leader.
	FlushAll() error
	// Add adds files to the store as version v. some are keys of the deletes in them. It runs in
	// the place of a commit leader, after FlushAll. The transaction is durable when it returns nil.
	// After an ErrStopped it is not known whether the store has the files. After any other error it
	// has removed them.
	Add(v entry.Version, out *compact.Output, some [][]byte) error
	// Report tells of an Add, or of why there was none: entries, bytes read and bytes written.
	Report(entries, read, wrote int64, began time.Time, err error)
}

// Spill is the writes of a transaction in files, and their way into the store. One goroutine uses
// it at a time; others may call Value at the same time. End it by Discard, also after Commit.
type Spill struct {
	*spilled
	cleanup runtime.Cleanup
}

// spilled is the state of a Spill. It is a type of its own, so that it can be released after
// the garbage collector has found that the user has lost the Spill.
type spilled struct {
	*Files
	store Store
	views *view.Set
	seed  uint64 // of key hashes

	began   time.Time
	checked entry.Version // the last check has looked for conflicts up to this version
	deleted [][]byte      // some of the keys that are deleted
	key     crypt.ID      // the data key that was current when the Spill began
	ended   sync.Once

	block  []byte     // records that are being added, beside the caller; if Sorted
	adding chan error // gets the result of that; nil: nothing is being added
}

// Begin returns an empty Spill to a store with these Views, and this seed of key hashes.
func Begin(cfg Config, store Store, views *view.Set, seed uint64) *Spill {
	s := &Spill{spilled: &spilled{Files: New(cfg), store: store, views: views, seed: seed}}
	s.key, s.began = store.Begin()
	s.cleanup = runtime.AddCleanup(s, (*spilled).endLeaked, s.spilled)
	return s
}

// mostBeside is the most bytes of records that are copied to be added beside the caller.
const mostBeside = 4 << 20

// Add is Files.Add. It returns ErrNoSpace as Store.Write does. If the Files are Sorted, it may return
// before the records are added: then a later call returns the error.
func (s *spilled) Add(ctx context.Context, records []byte, before int, ranges *rangedel.Set) error {
	// One block at a time, as the order counts.
	if err := s.waitAdded(); err != nil {
		return err
	}
	add := func(records []byte) error {
		return s.writeFiles(ctx, func(ctx context.Context) error { return s.Files.Add(ctx, records, before, ranges) })
	}
	if !s.cfg.Sorted || len(records) > mostBeside {
		return add(records)
	}
	// The caller makes the next records meanwhile: that is half of the work. The goroutine knows s,
	// and not the Spill, which can still be found to be lost.
	s.block = append(s.block[:0], records...)
	s.adding = make(chan error, 1)
	go func(done chan<- error) { done <- add(s.block) }(s.adding)
	return nil
}

// waitAdded returns when no block is being added any more. The error of the last one sticks.
func (s *spilled) waitAdded() error {
	if s.adding != nil {
		// Also if Write has refused the block, so that Files.Add knows nothing of it: what follows
		// would be without it.
		s.err = cmp.Or(s.err, <-s.adding)
		s.adding = nil
	}
	return s.err
}

// AddLarge is Files.AddLarge. It returns ErrNoSpace as Store.Write does.
func (s *spilled) AddLarge(ctx context.Context, e *entry.Entry) error {
	if err := s.waitAdded(); err != nil {
		return err
	}
	return s.writeFiles(ctx, func(ctx context.Context) error { return s.Files.AddLarge(ctx, e) })
}

// writeFiles runs fn, which writes files.
func (s *spilled) writeFiles(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.store.Write(ctx, func(ctx context.Context) (int64, error) {
		before := s.WrittenBytes()
		err := fn(ctx)
		return s.WrittenBytes() - before, err
	})
}

// Prepare does the part of a commit that others need not wait for: it makes the files
// durable, flushes memtables, and checks c against what was committed so far.
func (s *spilled) Prepare(ctx context.Context, c commit.Check) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, someFile)
	if err := s.waitAdded(); err != nil {
		return err
	}
	// By writeFiles, which counts what it writes: most of a sorted load's files end here.
	if err := s.writeFiles(ctx, s.FinishRun); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	// Others go on writing. The second round covers what came during the first, which may have
	// taken long, and leaves little to Commit.
	for range 2 {
		if err := s.store.Settle(ctx); err != nil {
			return err
		}
		if err := s.checkConflicts(ctx, &c); err != nil {
			return err
		}
	}
	if s.out.Run.Deletes > 0 {
		s.deleted = someDeletes(s.parts.Iterator(), s.out.Run.Deletes)
	}
	return nil
}

// checkConflicts returns a commit.Refusal if c does not hold for what was committed since the last check,
// or since the transaction began.
func (s *spilled) checkConflicts(ctx context.Context, c *commit.Check) error {
	if c.AsksNothing() {
		return nil
	}
	var of commit.KeySet = written{s, ctx}
	if c.Isolation == commit.Serializable {
		c.Reads.Prepare() // now, and not while other commits wait
		of = c.Reads
	}
	upTo, err := commit.CheckViews(s.views, of, max(s.checked, c.Since))
	if err == nil {
		s.checked = upTo
	}
	return err
}

// written is the keys and ranges that a Spill writes, as a commit.KeySet.
type written struct {
	*spilled
	ctx context.Context // ends a Check
}

// Len is how many keys are written.
func (w written) Len() int { return int(w.Entries()) }

// Refuse returns a commit.Refusal if key is written or in a range that is deleted.
func (w written) Refuse(key []byte) error {
	var e entry.Entry
	wrote, err := w.Get(key, checksum.HashKey(w.seed, key), &e)
	if wrote {
		return commit.RefuseKey(key)
	}
	return err
}

// Check returns a commit.Refusal if anything that is written was changed after since.
func (w written) Check(changes commit.Changes, since entry.Version) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, someFile)
	it := w.parts.Iterator() // of one part, as the run is finished
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && w.ctx.Err() != nil {
			return errs.Ended(w.ctx)
		}
		key := it.Entry().Key
		newest, found, err := changes.Newest(key, checksum.HashKey(w.seed, key), since)
		if err != nil {
			return err
		}
		if found && newest > since {
			return commit.RefuseKey(key)
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
			err = commit.RefuseRange(lo, hi)
		}
		return err
	})
}

// Commit adds what Prepare has made to the store, as version v. First it checks c against what
// was committed since Prepare. The transaction is durable when Commit returns nil, and visible
// once v is published. Commit runs in the place of a commit leader. After an error that is not
// ErrStopped nothing was written.
func (s *spilled) Commit(v entry.Version, c commit.Check) (err error) {
	defer func() { s.store.Report(s.Entries(), s.Bytes(), s.WrittenBytes(), s.began, err) }()
	if err := s.checkConflicts(context.Background(), &c); err != nil {
		return err
	}
	if err := s.store.FlushAll(); err != nil {
		return err
	}
	out := s.out
	for i := range out.Values {
		out.Values[i].Stamp = v
	}
	out.Run.Stamp, out.Run.MinVersion, out.Run.MaxVersion = v, v, v
	// Whatever comes of it: Add has removed the files, or the manifest may name them.
	s.kept = true
	return s.store.Add(v, &out, s.deleted)
}

// Discard removes the files, except those that Commit has added to the store. What was read of
// them is not valid any more. It may be called more than once.
func (s *Spill) Discard() {
	s.cleanup.Stop()
	s.endUse(true)
	runtime.KeepAlive(s) // else endLeaked could come first
}

// endLeaked is Discard for a Spill that was lost without it. If it has handed out memory, that
// may be in use: then its files stay open, and the next Open removes them.
func (s *spilled) endLeaked() { s.endUse(!s.lent) }

// endUse ends the use of the data key and, with discard, of the files.
func (s *spilled) endUse(discard bool) {
	s.ended.Do(func() {
		_ = s.waitAdded() // nobody asks any more
		if discard {
			s.store.Remove(s.Files.Discard)
		}
		s.store.End(s.key)
	})
}

// The store seeks past deleted keys, from some of them (engine/search.go).
const (
	soughtEvery   = 1 << 9  // deletes for each key that is kept, at least
	longestSought = 1 << 10 // bytes of a key that is kept
	mostSought    = 1 << 12 // keys that are kept: 4 MB at most
)

// someDeletes returns some of the keys that writes delete: fewer than mostSought, evenly spread.
// There are so many deletes.
func someDeletes(writes iterator.Iterator, deletes uint64) (keys [][]byte) {
	defer writes.Close()
	step := max(soughtEvery, deletes/(mostSought-1)+1)
	n := uint64(0)
	for ok := writes.First(); ok; ok = writes.Next() {
		e := writes.Entry()
		if e.Kind != entry.Delete || len(e.Key) > longestSought {
			continue
		}
		if n%step == 0 {
			keys = append(keys, bytes.Clone(e.Key))
		}
		n++
	}
	return keys
}
