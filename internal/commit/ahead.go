package commit

import (
	"context"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
)

// A transaction that has read much is checked before its turn, by its own committer. The
// leader, for whom all wait, then looks only at what was committed since: a bounded
// number of keys. If there are more, the committer checks again.
const (
	manyReads  = 256 // keys and ranges from which on
	aheadTries = 4   // then the leader checks all, lest the transaction wait for ever
)

// submitChecked is submit for a request that may have read much.
func (p *Pipeline) submitChecked(ctx context.Context, r *Request) (entry.Version, error) {
	r.checked = 0
	if r.Check.Isolation != conflict.Serializable || r.Check.Reads == nil || r.Check.Reads.Len() < manyReads {
		return p.submit(ctx, r)
	}
	r.Check.Reads.Prepare()
	upTo := r.Check.Since
	for range aheadTries {
		// The first look may take long, and much be committed meanwhile; the second one
		// looks at just that.
		for range 2 {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			var err error
			if upTo, err = p.store.CheckReads(r.Check.Reads, upTo); err != nil {
				return 0, err
			}
		}
		r.checked = upTo
		if v, err := p.submit(ctx, r); err != errStale {
			return v, err
		}
	}
	r.checked = 0
	return p.submit(ctx, r)
}
