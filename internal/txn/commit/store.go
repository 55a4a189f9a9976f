package commit

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/view"
)

// Store is the store that a Pipeline writes to. All committers call SortSince and CheckReads, at
// any time.
type Store interface {
	Writer
	// SortSince prepares memtables so that ChangedSince(since) is cheap for the leader.
	SortSince(since entry.Version)
	// CheckReads returns a Refusal if something in reads was written after
	// since. Else it returns the version up to which it has looked.
	CheckReads(reads *ReadSet, since entry.Version) (upTo entry.Version, err error)
	// ReadBases sets the bases of operations to what their keys have as of a published version, which
	// it returns.
	ReadBases(ops []Operation) (at entry.Version, err error)
}

// Over returns the Store that w writes, with these Views.
func Over(w Writer, views *view.Set) Store { return viewed{w, views} }

// viewed looks at Views for what committers ask before they have their turn.
type viewed struct {
	Writer
	views *view.Set
}

func (s viewed) SortSince(since entry.Version) {
	if p, err := s.views.Hold(); err == nil { // after Close there is nothing to prepare for
		p.SortSince(since)
		p.Release()
	}
}

func (s viewed) CheckReads(reads *ReadSet, since entry.Version) (upTo entry.Version, err error) {
	return CheckViews(s.views, reads, since)
}

func (s viewed) ReadBases(ops []Operation) (at entry.Version, err error) {
	p, err := s.views.Acquire(0)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	for i := range ops {
		if o := &ops[i]; !o.Versioned {
			if err := p.ReadBase(o.Key, o.Hash, MaxOperand, &o.base); err != nil {
				return 0, err
			}
		}
	}
	return p.Version(), nil
}

// Writer writes a store. All committers call Throttle and CatchUp, at any time. Only the leader
// calls the other methods, one call at a time.
type Writer interface {
	Changes
	// Throttle makes a committer wait while the store is late with flushes or compactions.
	// It returns an error if the store can't take the payload. A large transaction,
	// which writes files of its own, has a nil payload.
	Throttle(ctx context.Context, payload []byte) error
	// EachArrival calls fn with each key (hi is nil) and each range delete newer than since.
	// If fn returns an error, it stops and returns that. It returns false if it would
	// have to read runs to find all of them.
	EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error)
	// FindRecent makes dst the newest entry of key, if that is newer than since: a delete for a range
	// delete, and with no more than most+1 bytes of its value, in memory of dst. known is false if it
	// would have to read a file to tell.
	FindRecent(key []byte, hash uint64, since entry.Version, most int, dst *entry.Entry) (newer, known bool, err error)
	// Prepare makes room in the memtable for payloads of so many records, ranges of them range
	// deletes: Apply must not fail for want of memory. If Prepare fails, nothing of the group is
	// written, and the pipeline goes on.
	Prepare(payloads [][]byte, records, ranges int) error
	// Apply adds the records of a transaction with version v to the memtable. They begin
	// at this position of the journal. It returns where those of the next transaction begin.
	Apply(payload []byte, at entry.Position, v entry.Version) (next entry.Position, err error)
	// Publish makes all versions up to v visible.
	Publish(v entry.Version)
	// CatchUp does the work that a commit has caused and that its committer pays for: the
	// search for emptied ranges. It is called after the commit, with no lock held.
	CatchUp()
}

// Journal is the log that groups are appended to. Only the leader calls it.
type Journal interface {
	// Append writes the payloads of a group, and returns the position of the first record.
	// It sets the checksums and the versions of the records in place, one version for each
	// transaction, all above that of the newest commit before. If the error passes
	// (errs.Passes), nothing of the group is left in the journal.
	Append(before entry.Version, versions []entry.Version, transactions [][]byte) (entry.Position, error)
	// Sync makes everything appended so far durable. After an error that passes it may
	// be tried again.
	Sync() error
	// Retract takes back the last Append. Call it after a Sync with an error that passes.
	Retract() error
}

// Alone is a transaction that commits without the journal, in a turn of its own.
type Alone interface {
	// Prepare does all work that can be done while other commits go on. It returns
	// errs.ErrConflict if c does not hold for what was committed so far.
	Prepare(ctx context.Context, c Check) error
	// Commit records the transaction as version v, and makes it and all earlier commits
	// durable. It returns errs.ErrConflict if c does not hold for what was committed since
	// Prepare. After an errs.ErrStopped nothing may be written any more. After any other
	// error nothing of the transaction was written.
	Commit(v entry.Version, c Check) error
}
