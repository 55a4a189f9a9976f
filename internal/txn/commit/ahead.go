package commit

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/conflict"
)

// The committer of a transaction that has read much checks it before it joins a group. The
// leader, for whom all others wait, then looks only at what was committed since: a bounded
// number of keys. If there are more, the committer has to check again.
const (
	manyReads  = 256 // keys and ranges in a read set that is checked ahead, at least
	aheadTries = 4   // checks ahead; after them the leader checks all, so that the commit ends
)

// submitChecked is submit, after a check ahead if r has read much.
func (p *Pipeline) submitChecked(ctx context.Context, r *Request) (entry.Version, error) {
	r.checked = 0
	if r.Check.Isolation != conflict.Serializable || r.Check.Reads == nil || r.Check.Reads.Len() < manyReads {
		return p.submit(ctx, r)
	}
	r.Check.Reads.Prepare()
	upTo := r.Check.Since
	for range aheadTries {
		// The first check may take long, while others commit much. The second one covers
		// only that, so it is quick and leaves little to the leader.
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
