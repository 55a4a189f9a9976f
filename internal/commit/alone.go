package commit

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// CommitAlone has fn record a transaction that does without the journal, as the
// version that fn is given, in a turn of its own: nothing else is checked,
// written or published meanwhile. When fn returns nil, its transaction and
// everything before it must be durable; then it is published. An error of fn that
// is no errs.ErrStopped must have written nothing; one that is ends all writing.
//
// ctx is honoured until fn is called.
func (p *Pipeline) CommitAlone(ctx context.Context, fn func(v entry.Version) error) (entry.Version, error) {
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
	return p.recordAlone(fn)
}

// recordAlone is CommitAlone in its turn.
func (p *Pipeline) recordAlone(fn func(v entry.Version) error) (_ entry.Version, err error) {
	if p.stopped != nil {
		return 0, p.stopped
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
	if err = fn(v); err != nil {
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
