package commit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

var errPanicked = fmt.Errorf("%w: the leader of a commit group panicked", errs.ErrStopped)

// leader writes groups and gives them versions. One committer at a time uses it; others read only
// visible and durable.
type leader struct {
	Config

	last    entry.Version // newest version that the journal has
	visible atomic.Uint64 // newest published version
	durable atomic.Uint64 // newest version known to be durable; 0 at first

	// Of the current group:
	passed   []*Request      // requests whose checks hold, in version order
	idle     []*Request      // others whose checks hold, but whose operations change nothing
	bytes    int             // of the payloads of passed
	payloads [][]byte        // the payloads of passed, each of one version
	versions []entry.Version // of payloads
	before   entry.Version   // last before the group
	records  int             // how many records they have
	ranges   int             // how many of these are range deletes
	synced   bool            // a request that was not refused asks for a sync; kept until the next group
	writes   groupWrites     // what passed writes, for the checks of later requests
}

// commitGroup commits a group and sets the results of its members. If it returns an error, that
// is the result of every member instead. After an ErrStopped nothing may be written any more.
func (l *leader) commitGroup(members []*Request) error {
	l.decideMembers(members)
	// Only now is it known how much will be written. Prepare comes before Append: if Apply failed
	// for want of memory, the group would be in the journal but not visible, and the pipeline would
	// have to stop. An error here only refuses the group, as nothing was written.
	if len(l.passed) > 0 {
		if err := l.Store.Prepare(l.payloads, l.records, l.ranges); err != nil {
			return err
		}
	}
	// From here on refusals are results of single requests. Any error that is left means that the
	// disk may hold a part of the group.
	return wrapStopped(l.appendAndPublish(members))
}

// decideMembers gives each request its version, or the error that refuses it.
func (l *leader) decideMembers(members []*Request) {
	l.synced, l.before = false, l.last
	newest := l.last
	for _, r := range members {
		// Keyspaces first: of a dropped one the versions are gone, so no check could be trusted.
		if r.err = r.Check.Dropped(); r.err == nil && len(r.Given) > 0 && r.Given[0].Version <= newest {
			r.err = errs.ErrVersionMismatch
		}
		if r.err == nil {
			r.err = l.writes.checkRequest(r, l.passed)
		}
		if r.err == nil && len(r.Operations) > 0 {
			r.err = l.resolveOperations(r, newest)
		}
		if r.err != nil {
			continue
		}
		l.synced = l.synced || r.Synced
		if r.Records == 0 { // Pipeline.Sync, or operations that change nothing
			if len(r.Operations) > 0 {
				l.idle = append(l.idle, r)
			}
			continue
		}
		// Versions count what passed, so that a refused request leaves no gap. Later requests of
		// the group are checked against this one, although it is not written yet. If the append
		// fails, both fail.
		l.passed = append(l.passed, r)
		l.bytes += len(r.Payload)
		newest = l.numberRequest(r, newest)
		l.records, l.ranges = l.records+r.Records, l.ranges+r.Ranges
	}
}

// numberRequest gives the parts of r their versions, and returns the greatest one. newest is that of
// the request before.
func (l *leader) numberRequest(r *Request, newest entry.Version) entry.Version {
	if len(r.Given) == 0 {
		r.version = newest + 1
		l.payloads, l.versions = append(l.payloads, r.Payload), append(l.versions, r.version)
		return r.version
	}
	for i, g := range r.Given {
		end := len(r.Payload)
		if i+1 < len(r.Given) {
			end = r.Given[i+1].Begin
		}
		r.version = g.Version
		l.payloads, l.versions = append(l.payloads, r.Payload[g.Begin:end]), append(l.versions, g.Version)
	}
	return r.version
}

// resolveOperations makes the payload of r, which is the next to pass, what follows from the newest
// values, and newest the version before it. It returns errOutdated if one of these can't be had without a read.
func (l *leader) resolveOperations(r *Request, newest entry.Version) error {
	outdated := false
	for i := range r.Operations {
		if o := &r.Operations[i]; !o.Versioned {
			newer, err := l.writes.readNewer(o, r.basesAt)
			if outdated = outdated || newer; err != nil {
				return err
			}
		}
	}
	if outdated {
		if err := r.encodeResults(); err != nil {
			return err
		}
		// Results may be longer than those by which the group was filled. A frame has a limit.
		if l.bytes+len(r.Payload) > MaxBytes && l.bytes > 0 {
			return errOutdated
		}
	}
	v := newest + 1
	if len(r.Given) > 0 { // one: batches of several have no operations
		v = r.Given[0].Version
	}
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Versioned {
			binary.BigEndian.PutUint64(r.Payload[o.at:], uint64(v))
		}
	}
	return nil
}

// appendAndPublish appends the requests that passed, syncs if one of them asked for it, and makes
// them visible. A refusal, as by a full disk, becomes the result of these requests, and
// appendAndPublish returns nil, because the pipeline goes on.
func (l *leader) appendAndPublish(members []*Request) error {
	at, err := l.appendPassed()
	if err != nil {
		return err
	}
	// The sync comes before Apply: if it fails, no reader has seen what its committer
	// will be told is not committed. If an earlier sync covers all, there is nothing to do.
	if l.synced && l.durable.Load() < uint64(l.last) {
		switch err := l.syncJournal(); {
		// The disk refused before anything was acknowledged. Take the group back, so that no later
		// sync makes records durable whose committers were told that they failed.
		case errs.Passes(err):
			if err := l.retractGroup(members, err); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	for i, p := range l.payloads {
		if at, err = l.Store.Apply(p, at, l.versions[i]); err != nil {
			return err
		}
	}
	// Once for the whole group: a reader sees all of it or nothing.
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
	at, err := l.Journal.Append(l.before, l.versions, l.payloads)
	switch {
	case err == nil:
		// From now on the versions are used, even if a later step fails and stops the pipeline.
		l.last = l.versions[len(l.versions)-1]
	case errs.Passes(err):
		// Members that only want a sync still get it: for earlier groups.
		// passed is empty then, so the later steps apply and publish nothing.
		l.refusePassed(err)
		err = nil
	}
	return at, err
}

// syncJournal makes everything appended so far durable.
func (l *leader) syncJournal() error {
	var began time.Time
	if l.OnSync != nil {
		began = l.Now()
	}
	if err := l.Journal.Sync(); err != nil {
		return err
	}
	// Steps of two groups never interleave, so a sync covers everything up to last.
	l.durable.Store(uint64(l.last))
	if l.OnSync != nil {
		l.OnSync(l.Now().Sub(began))
	}
	return nil
}

// retractGroup takes back a group whose sync was refused with err. All requests that passed get
// err, and so do members that only want a sync.
func (l *leader) retractGroup(members []*Request, err error) error {
	// Without a write there is nothing to take back: only Sync callers are told.
	if len(l.passed) > 0 {
		if err := l.Journal.Retract(); err != nil {
			return err
		}
		l.last = l.before
		l.refusePassed(err)
	}
	// Their sync was refused, too. Requests that failed their check keep that error.
	for _, r := range members {
		if r.Records == 0 && r.err == nil {
			r.err = err
		}
	}
	return nil
}

// refusePassed makes err the result of all requests that passed, and empties passed and payloads.
func (l *leader) refusePassed(err error) {
	for _, r := range l.passed {
		r.version, r.err = 0, err
	}
	// The arrays are reused: they must not keep the requests alive.
	clear(l.passed)
	clear(l.payloads)
	l.passed, l.payloads, l.versions = l.passed[:0], l.payloads[:0], l.versions[:0]
	// What they have found may be what these requests would have written.
	for _, r := range l.idle {
		r.err = err
	}
}

// writeAlone commits a in an exclusive turn, as Pipeline.CommitAlone says.
func (l *leader) writeAlone(a Alone, c Check, at entry.Version) (entry.Version, error) {
	if err := c.Dropped(); err != nil {
		return 0, err
	}
	if err := l.publishAlone(at, func(v entry.Version) error { return a.Commit(v, c) }); err != nil {
		return 0, err
	}
	return l.last, nil
}

// publishAlone publishes what fn commits as the version at, or with an at of 0 as the next one. All earlier commits are durable then.
func (l *leader) publishAlone(at entry.Version, fn func(v entry.Version) error) error {
	// If it is refused, nothing was written with v, so the next commit may get it.
	v := l.last + 1
	if at != 0 {
		if at < v {
			return errs.ErrVersionMismatch
		}
		v = at
	}
	if err := fn(v); err != nil {
		return err
	}
	l.last = v
	l.durable.Store(uint64(v))
	l.publishWritten()
	return nil
}

// publishWritten makes all that was written visible. Readers take their version from the store. visible is only for Sync, so it may lag behind.
func (l *leader) publishWritten() {
	l.Store.Publish(l.last)
	l.visible.Store(uint64(l.last))
}

// forgetGroup forgets the group, so that nothing keeps its payloads alive.
func (l *leader) forgetGroup() {
	clear(l.passed)
	clear(l.payloads)
	clear(l.idle)
	l.passed, l.payloads, l.versions, l.idle, l.bytes = l.passed[:0], l.payloads[:0], l.versions[:0], l.idle[:0], 0
	l.records, l.ranges = 0, 0
	l.writes.forgetGroup()
}

// wrapStopped wraps err in ErrStopped, so that it stops the pipeline.
func wrapStopped(err error) error {
	if err == nil || errors.Is(err, errs.ErrStopped) {
		return err
	}
	return fmt.Errorf("%w: %w", errs.ErrStopped, err)
}
