package commit

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
)

// The committer of a transaction that has read much checks it before it joins a group. The
// leader, for whom all others wait, then looks only at what was committed since: a bounded
// number of keys. If there are more, the committer has to check again.
const (
	manyReads  = 256 // keys and ranges in the read set from which it is checked ahead
	aheadTries = 4   // checks ahead before the leader checks everything, so that the commit ends
)

// submitChecked submits r. If r has read much, it first checks the reads here, in the committer's
// own time.
func (p *Pipeline) submitChecked(ctx context.Context, r *Request) (entry.Version, error) {
	r.checked = 0
	if r.Check.Isolation != Serializable || r.Check.Reads == nil || r.Check.Reads.Len() < manyReads {
		return p.submitRequest(ctx, r)
	}
	// Sort now: else the leader's first lookup would sort the whole read set while others wait.
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
		// The leader may refuse with errStale if too much was committed between the check and its
		// group. That costs this committer another round, but nobody else.
		r.checked = upTo
		if v, err := p.submitRequest(ctx, r); err != errStale {
			return v, err
		}
	}
	// Writers are faster than the checks ahead. A full check by the leader is slow for all, but
	// this transaction would starve without it.
	r.checked = 0
	return p.submitRequest(ctx, r)
}
