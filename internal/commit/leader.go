package commit

import (
	"errors"
	"fmt"
	"time"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

var errPanicked = fmt.Errorf("%w: the leader of a commit group panicked", errs.ErrStopped)

// leader is the state of whoever leads; it passes from one to the next.
type leader struct {
	last           entry.Version // newest version used
	passed         []*Request    // of the current group, in version order
	payloads       [][]byte      // theirs
	bytes, records int           // of its payload
	sync           bool          // somebody who passed asked for a sync
	writes         writes        // what passed writes, for the checks of those after
	gathering
}

// lead writes g, wakes its members and hands leadership on.
func (p *Pipeline) lead(g *group) {
	p.gather(g)
	p.mu.Lock()
	p.takeLocked(g)
	p.mu.Unlock()
	p.leader.company = len(g.members)

	err := errPanicked
	defer func() {
		if err != nil {
			p.fail(g, err)
		}
		p.leader.reset()
		p.release(g)
	}()
	err = p.write(g)
}

// write commits the group g. An error is the result of each member, whatever
// it has got so far; if it is an ErrStopped, it is the last word.
func (p *Pipeline) write(g *group) error {
	if p.stopped != nil {
		return p.stopped
	}
	p.decide(g)
	l := &p.leader
	if len(l.passed) > 0 {
		if err := p.cfg.Store.Prepare(l.bytes); err != nil {
			return err
		}
	}
	return stop(p.record(g))
}

// decide gives each member of g its version, or the error that refuses it.
func (p *Pipeline) decide(g *group) {
	l := &p.leader
	for _, r := range g.members {
		if r.err = r.Check.Dropped(); r.err == nil {
			r.err = l.writes.check(r, l.passed)
		}
		if r.err != nil {
			if r.err == errs.ErrConflict {
				p.counts.conflicts.Add(1)
			}
			continue
		}
		l.sync = l.sync || r.Synced
		if r.Records == 0 {
			continue
		}
		l.passed = append(l.passed, r)
		r.version = l.last + entry.Version(len(l.passed))
		l.payloads = append(l.payloads, r.Payload)
		l.records += r.Records
		l.bytes += len(r.Payload)
	}
}

// record makes what decide let pass of g durable, if anyone asked for it, and then visible.
func (p *Pipeline) record(g *group) error {
	l := &p.leader
	var at entry.Position
	if n := len(l.passed); n > 0 {
		var err error
		switch at, err = p.cfg.Journal.Append(l.last+1, l.payloads); {
		case err == nil:
			l.last += entry.Version(n)
		case refused(err):
			l.refuse(err)
		default:
			return err
		}
	}
	if l.sync && p.durable.Load() < uint64(l.last) {
		switch err := p.sync(); {
		case refused(err):
			if err := p.retract(g, err); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	for _, r := range l.passed {
		if err := p.cfg.Store.Apply(r.Payload, at); err != nil {
			return err
		}
		at.Offset += int64(len(r.Payload))
	}
	if len(l.passed) > 0 {
		p.cfg.Store.Publish(l.last)
		p.visible.Store(uint64(l.last))
		p.countGroup()
	}
	return nil
}

// refused reports whether an Append has written nothing, or a Sync done nothing
// that counts, and neither has stopped anything.
func refused(err error) bool {
	return errors.Is(err, errs.ErrNoSpace) && !errors.Is(err, errs.ErrStopped)
}

// refuse gives err to all who passed; those who only want a sync get theirs.
func (l *leader) refuse(err error) {
	for _, r := range l.passed {
		r.version, r.err = 0, err
	}
	clear(l.passed)
	l.passed = l.passed[:0]
}

// retract takes the group g back, for which a sync was asked and refused: all who
// passed get err, and so do those who only want a sync.
func (p *Pipeline) retract(g *group, err error) error {
	l := &p.leader
	if n := len(l.passed); n > 0 {
		if err := p.cfg.Journal.Retract(); err != nil {
			return err
		}
		l.last -= entry.Version(n)
		l.refuse(err)
	}
	for _, r := range g.members {
		if r.Records == 0 && r.err == nil {
			r.err = err
		}
	}
	return nil
}

func (p *Pipeline) sync() error {
	var began time.Time
	if p.cfg.Now != nil {
		began = p.cfg.Now()
	}
	if err := p.cfg.Journal.Sync(); err != nil {
		return err
	}
	p.durable.Store(uint64(p.leader.last))
	p.counts.syncs.Add(1)
	if p.cfg.Now != nil {
		took := p.cfg.Now().Sub(began)
		p.counts.syncNanos.Add(uint64(max(took, 0)))
		if p.cfg.OnSync != nil {
			p.cfg.OnSync(took)
		}
	}
	return nil
}

func (p *Pipeline) countGroup() {
	l, c := &p.leader, &p.counts
	c.groups.Add(1)
	c.transactions.Add(uint64(len(l.passed)))
	c.records.Add(uint64(l.records))
	c.bytes.Add(uint64(l.bytes))
	if p.cfg.OnGroup != nil {
		p.cfg.OnGroup(len(l.passed), l.bytes)
	}
}

// fail gives err to every member of g.
func (p *Pipeline) fail(g *group, err error) {
	for _, r := range g.members {
		r.version, r.err = 0, err
	}
	if errors.Is(err, errs.ErrStopped) {
		p.mu.Lock()
		p.stopped = err
		p.mu.Unlock()
	}
}

// reset forgets the group, so that nothing keeps its payloads alive.
func (l *leader) reset() {
	clear(l.passed)
	clear(l.payloads)
	l.passed, l.payloads = l.passed[:0], l.payloads[:0]
	l.bytes, l.records, l.sync = 0, 0, false
	l.writes.reset()
}

// stop makes an error one that stops the pipeline.
func stop(err error) error {
	if err == nil || errors.Is(err, errs.ErrStopped) {
		return err
	}
	return fmt.Errorf("%w: %w", errs.ErrStopped, err)
}
