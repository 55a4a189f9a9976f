package engine

import (
	"context"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/compact"
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

// Spills is what such transactions need of the store: it is a spill.Store.
type Spills struct {
	*state
	*Lifetime
	work *Worker
}

// Begin says that a transaction is going to write files.
func (s *Spills) Begin() (key crypt.ID, now time.Time) { return s.keys.beginWork(), time.Now() }

// End ends the use of a data key, which Begin has returned.
func (s *Spills) End(key crypt.ID) {
	s.keys.endWork(key)
	s.tasks.kickAll() // a change of keys may have waited
}

// Write runs fn, which writes files of pending writes and returns how many bytes. It returns
// ErrNoSpace if only the reserve is left.
func (s *Spills) Write(ctx context.Context, fn func(ctx context.Context) (bytes int64, err error)) error {
	return s.Do(ctx, func(ctx context.Context) error {
		if err := s.disk.admitPayload(ctx, nil); err != nil {
			return err
		}
		bytes, err := fn(ctx)
		// These bytes don't pass by Apply, which counts those of all other commits.
		s.disk.countWritten(int(bytes))
		return err
	})
}

// settledShare: FlushAll flushes at most 1/32 of a memtable itself, while other commits wait.
const settledShare = 32

// Settle flushes memtables if they have more than FlushAll should flush.
func (s *Spills) Settle(ctx context.Context) error {
	// Settle runs while others commit, and FlushAll while they wait. So the large part is done
	// here.
	if v := s.state.views.Current(); len(v.Tables) == 1 && v.Active().Bytes() <= int64(s.cfg.MemtableBytes)/settledShare {
		return nil
	}
	return s.work.Flush(ctx)
}

// FlushAll writes everything that was committed into runs. It runs in the place of a commit
// leader.
func (s *Spills) FlushAll() error {
	if err := s.lifetime.stopReason(); err != nil {
		return err
	}
	if err := s.work.writer.sealAny(); err != nil {
		return err
	}
	return s.work.flusher.flushForCommit(s.lifetime.closing)
}

// Add adds the files of a transaction to the store as version v, which is durable when it returns
// nil, and visible once v is published. some are keys of the deletes in it. It runs in the place of
// a commit leader, after FlushAll. After an error that is not ErrStopped the files are gone.
func (s *Spills) Add(v entry.Version, out *compact.Output, some [][]byte) error {
	edit := s.newCommit(v, layout.KeyspaceChange{})
	edit.AddRuns = layout.NewRuns(out.Run, layout.Upper)
	if err := s.applyEdit(edit, out, view.Change{}); err != nil {
		return err
	}
	s.work.searcher.countDeletes(some, int64(out.Run.Deletes))
	return nil
}

// Report tells of a transaction that has tried to commit: entries, bytes read and bytes written.
func (s *Spills) Report(entries, read, wrote int64, began time.Time, err error) {
	work := report.Work{Reason: "transaction larger than its memory", EntriesIn: entries, BytesIn: read, BytesOut: wrote}
	s.reportWork(Work{Kind: "spill", Work: work}, began, err)
}
