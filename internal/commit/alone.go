package commit

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// Alone is a transaction that commits without the journal, in a turn of its own.
type Alone interface {
	// Prepare does what other commits need not wait for. It returns
	// errs.ErrConflict if c does not hold for what was committed so far.
	Prepare(ctx context.Context, c conflict.Check) error
	// Commit records the transaction as version v, and makes it and all that was
	// committed before durable. It returns errs.ErrConflict if c does not hold for
	// what was committed since Prepare. After an error that is no errs.ErrStopped
	// nothing of the transaction was written; one that is ends all writing.
	Commit(v entry.Version, c conflict.Check) error
}

// CommitAlone commits a, if c holds, and returns its version. While a.Commit
// runs, nothing else is checked, written or published.
//
// ctx is honoured until a.Commit is called.
func (p *Pipeline) CommitAlone(ctx context.Context, a Alone, c conflict.Check) (entry.Version, error) {
	if err := a.Prepare(ctx, c); err != nil {
		return 0, err
	}
	if err := p.cfg.Store.Admit(ctx, nil); err != nil {
		return 0, err
	}
	p.mu.Lock()
	if err := p.refusalLocked(); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	g := p.turnLocked()
	defer p.release(g)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return p.recordAlone(a, c)
}

// recordAlone is CommitAlone in its turn.
func (p *Pipeline) recordAlone(a Alone, c conflict.Check) (_ entry.Version, err error) {
	if p.stopped != nil {
		return 0, p.stopped
	}
	if err := c.Dropped(); err != nil {
		return 0, err
	}
	err = errPanicked
	defer func() {
		if errors.Is(err, errs.ErrStopped) {
			p.mu.Lock()
			p.stopped = err
			p.mu.Unlock()
		}
	}()
	v := p.leader.last + 1
	if err = a.Commit(v, c); err != nil {
		if err == errs.ErrConflict {
			p.counts.conflicts.Add(1)
		}
		return 0, err
	}
	p.leader.last = v
	p.durable.Store(uint64(v))
	p.cfg.Store.Publish(v)
	p.visible.Store(uint64(v))
	p.counts.transactions.Add(1)
	return v, nil
}
