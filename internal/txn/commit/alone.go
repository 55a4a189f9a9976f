package commit

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
)

// CommitAlone commits a, if c holds, and returns its version: at, which must be above that of every
// commit before, or else, with an at of 0, the next one. While a.Commit runs, nothing else is
// checked, written or published. ctx is honoured until a.Commit is called.
func (p *Pipeline) CommitAlone(ctx context.Context, a Alone, c Check, at entry.Version) (v entry.Version, err error) {
	// Not behind Prepare: what others commit during the wait, a.Commit would have to look
	// at and to flush, with everybody waiting.
	if err := p.store.Throttle(ctx, nil); err != nil {
		return 0, err
	}
	// The long part (files, most of the conflict check) runs here, beside other commits. Only what
	// came since is left for the exclusive turn.
	if err := a.Prepare(ctx, c); err != nil {
		return 0, err
	}
	err = p.Do(ctx, func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		// If a.Commit panics, err keeps this value. It is unknown what was written, so nothing more
		// may be.
		err = errPanicked
		defer func() { p.stopOn(err) }()
		v, err = p.leader.writeAlone(a, c, at)
		return err
	})
	if err == nil {
		p.store.CatchUp()
	}
	return v, err
}

// CommitEdit calls fn to commit something by one edit of the manifest, as the version that fn gets: at
// or, if that is 0, the next one. It returns errs.ErrVersionMismatch if at is not above that of every
// commit before. All earlier commits are durable then, and nothing else is checked, written or published
// meanwhile. The version is visible when CommitEdit returns nil. After an error of fn that is not
// errs.ErrStopped the next commit gets that version. ctx is honoured until fn is called.
func (p *Pipeline) CommitEdit(ctx context.Context, at entry.Version, fn func(v entry.Version) error) error {
	return p.Do(ctx, func() (err error) {
		err = errPanicked // as in CommitAlone
		defer func() { p.stopOn(err) }()
		if p.leader.durable.Load() < uint64(p.leader.last) {
			if err = p.leader.syncJournal(); err != nil {
				return err
			}
		}
		err = p.leader.publishAlone(at, fn)
		return err
	})
}
