package commit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/failure"
	"github.com/brockdb/brock/internal/txn/conflict"
)

var errPanicked = fmt.Errorf("%w: the leader of a commit group panicked", errs.ErrStopped)

// leader writes groups and gives them versions. One committer at a time uses it; others
// read only visible and durable.
type leader struct {
	store   Store
	journal Journal
	now     func() time.Time         // nil: syncs are not timed
	onSync  func(took time.Duration) // may be nil

	last    entry.Version // newest version used
	visible atomic.Uint64 // newest published version
	durable atomic.Uint64 // newest version known to be durable; 0 at first

	// Of the current group:
	passed   []*Request // requests whose checks hold, in version order
	payloads [][]byte   // the payloads of passed
	records  int        // how many records they have
	ranges   int        // how many of these are range deletes
	synced   bool       // a request that passed asks for a sync
	writes   writes     // what passed writes, for the checks of later requests
}

// commitGroup commits a group and sets the results of its members. If it returns an error, that
// is the result of every member instead. After an ErrStopped nothing may be written any more.
func (l *leader) commitGroup(members []*Request) error {
	l.decide(members)
	// Only now is it known how much will be written.
	if len(l.passed) > 0 {
		if err := l.store.Prepare(l.payloads, l.records, l.ranges); err != nil {
			return err
		}
	}
	return stopping(l.appendAndPublish(members))
}

// decide gives each request its version, or the error that refuses it.
func (l *leader) decide(members []*Request) {
	for _, r := range members {
		if r.err = r.Check.Dropped(); r.err == nil {
			r.err = l.writes.checkRequest(r, l.passed)
		}
		if r.err != nil {
			continue
		}
		l.synced = l.synced || r.Synced
		if r.Records == 0 { // it only wants a sync
			continue
		}
		l.passed = append(l.passed, r)
		r.version = l.last + entry.Version(len(l.passed))
		l.payloads = append(l.payloads, r.Payload)
		l.records, l.ranges = l.records+r.Records, l.ranges+r.Ranges
	}
}

// appendAndPublish appends the requests that passed, syncs if one of them asked for it, and makes
// them visible. A refusal, as by a full disk, becomes the result of these requests;
// record itself then returns nil, because the pipeline goes on.
func (l *leader) appendAndPublish(members []*Request) error {
	at, err := l.appendPassed()
	if err != nil {
		return err
	}
	// The sync comes before Apply: if it fails, no reader has seen what its committer
	// will be told is not committed.
	if l.synced && l.durable.Load() < uint64(l.last) {
		switch err := l.sync(); {
		case failure.Passes(err):
			if err := l.retract(members, err); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	for _, r := range l.passed {
		if at, err = l.store.Apply(r.Payload, at, r.version); err != nil {
			return err
		}
	}
	if len(l.passed) > 0 {
		l.publishWritten()
	}
	return nil
}

// appendPassed writes the requests that passed to the journal, if there are any.
func (l *leader) appendPassed() (entry.Position, error) {
	if len(l.passed) == 0 {
		return entry.Position{}, nil
	}
	at, err := l.journal.Append(l.last+1, l.payloads)
	switch {
	case err == nil:
		l.last += entry.Version(len(l.passed))
	case failure.Passes(err):
		// Members that only want a sync still get it: for earlier groups.
		l.refusePassed(err)
		err = nil
	}
	return at, err
}

func (l *leader) sync() error {
	var began time.Time
	if l.now != nil {
		began = l.now()
	}
	if err := l.journal.Sync(); err != nil {
		return err
	}
	l.durable.Store(uint64(l.last))
	if l.now != nil && l.onSync != nil {
		l.onSync(l.now().Sub(began))
	}
	return nil
}

// retract takes back a group whose sync was refused with err. All requests that passed get
// err, and so do members that only want a sync.
func (l *leader) retract(members []*Request, err error) error {
	if n := len(l.passed); n > 0 {
		if err := l.journal.Retract(); err != nil {
			return err
		}
		l.last -= entry.Version(n)
		l.refusePassed(err)
	}
	for _, r := range members {
		if r.Records == 0 && r.err == nil {
			r.err = err
		}
	}
	return nil
}

// refusePassed makes err the result of all requests that passed, and empties passed.
func (l *leader) refusePassed(err error) {
	for _, r := range l.passed {
		r.version, r.err = 0, err
	}
	clear(l.passed)
	l.passed = l.passed[:0]
}

// writeAlone commits a in an exclusive turn, as Pipeline.CommitAlone says.
func (l *leader) writeAlone(a Alone, c conflict.Check) (entry.Version, error) {
	if err := c.Dropped(); err != nil {
		return 0, err
	}
	// If a is refused, the next commit gets v: nothing was written with it.
	v := l.last + 1
	if err := a.Commit(v, c); err != nil {
		return 0, err
	}
	l.last = v
	l.durable.Store(uint64(v))
	l.publishWritten()
	return v, nil
}

// publishWritten makes all that was written visible.
func (l *leader) publishWritten() {
	l.store.Publish(l.last)
	l.visible.Store(uint64(l.last))
}

// forgetGroup forgets the group, so that nothing keeps its payloads alive.
func (l *leader) forgetGroup() {
	clear(l.passed)
	clear(l.payloads)
	l.passed, l.payloads = l.passed[:0], l.payloads[:0]
	l.records, l.ranges, l.synced = 0, 0, false
	l.writes.forgetGroup()
}

// stopping wraps err in ErrStopped, so that it stops the pipeline.
func stopping(err error) error {
	if err == nil || errors.Is(err, errs.ErrStopped) {
		return err
	}
	return fmt.Errorf("%w: %w", errs.ErrStopped, err)
}
