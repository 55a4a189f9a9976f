package brockds

import (
	"container/heap"
	"context"
	"math"
	"slices"
	"sync"

	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
)

// Query returns the results of q as of one version of the Datastore: what is written meanwhile does
// not show. They are read while they are asked for, and the end of ctx ends them with its error.
// Close the results, unless they were read to the end.
//
// Prefix, filters and orders of keys, KeysOnly, Offset and Limit are answered by the walk over the
// keys. Other filters see each entry of that range. Other orders read it all and keep, with a Limit,
// the first Offset+Limit of it in memory. Sizes and expirations cost nothing. Filters and orders that
// may look at values get them also with KeysOnly, for which only results lack them.
func (d *Datastore) Query(ctx context.Context, q dsq.Query) (dsq.Results, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	p, err := planQuery(q)
	if err != nil {
		return nil, err
	}
	t, err := d.db.Begin(ctx, brock.TxnOptions{})
	if err != nil {
		return nil, err
	}
	return d.newResults(ctx, p, t.In(d.keys), false, new(sync.Mutex), t.Discard), nil
}

// results reads the results of a query. next and close are what dsq.ResultsFromIterator asks for.
type results struct {
	d    *Datastore
	ctx  context.Context
	plan *plan

	mu    *sync.Mutex // guards the rest, and the transaction that the iterator belongs to
	it    *brock.Iterator
	end   func() // ends the transaction, if it is of this query alone; nil: others do
	begun bool   // the walk has returned the first entry
	at    bool   // the iterator is at the first entry already
	over  bool   // the walk is over: it and its transaction were ended

	skip, left int         // Offset, and Limit or -1, that are left
	sorted     []dsq.Entry // results that are left, once they are sorted
	isSorted   bool
}

// newResults returns the results of what t sees, with t's writes of up to now if it writes.
func (d *Datastore) newResults(ctx context.Context, p *plan, t *brock.Txn, writes bool, mu *sync.Mutex, end func()) dsq.Results {
	r := &results{d: d, ctx: ctx, plan: p, mu: mu, it: t.NewIterator(p.walk), end: end}
	r.skip, r.left = max(p.query.Offset, 0), -1
	if p.query.Limit > 0 {
		r.left = p.query.Limit
	}
	if writes {
		r.it.Rewind()
		r.at = true
	}
	return dsq.ResultsFromIterator(p.query, dsq.Iterator{Next: r.next, Close: r.close})
}

// close ends the query. It may be called more than once.
func (r *results) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endWalkLocked()
	r.sorted = nil
	return nil
}

func (r *results) endWalkLocked() {
	if r.over {
		return
	}
	r.over = true
	_ = r.it.Close() // it was only read, and its errors came with the results
	if r.end != nil {
		r.end()
	}
}

// next returns the next result; false at the end. An error is the last one.
func (r *results) next() (dsq.Result, bool) {
	e, ok, err := r.nextEntry()
	if err != nil {
		return dsq.Result{Error: err}, true
	}
	if r.plan.query.KeysOnly {
		e.Value = nil
	}
	return dsq.Result{Entry: e}, ok
}

func (r *results) nextEntry() (e dsq.Entry, ok bool, err error) {
	if len(r.plan.orders) == 0 {
		return r.nextWalked()
	}
	if !r.isSorted {
		if err := r.sort(); err != nil {
			return e, false, err
		}
	}
	r.mu.Lock() // close may be called at the same time
	defer r.mu.Unlock()
	if len(r.sorted) == 0 {
		return e, false, nil
	}
	e = r.sorted[0]
	r.sorted[0] = dsq.Entry{} // its value is the caller's now
	r.sorted = r.sorted[1:]
	return e, true, nil
}

// nextWalked is nextEntry for results that come in the order of the walk.
func (r *results) nextWalked() (e dsq.Entry, ok bool, err error) {
	for r.left != 0 {
		// What is skipped need not be read, unless a filter must see it.
		e, ok, err := r.walk(!r.plan.query.KeysOnly && r.skip == 0)
		switch {
		case err != nil || !ok:
			return e, false, err
		case !r.plan.accepts(e):
			continue
		case r.skip > 0:
			r.skip--
			continue
		}
		if r.left > 0 {
			r.left--
		}
		if r.left == 0 { // the caller may not ask again, nor call Close
			_ = r.close()
		}
		return e, true, nil
	}
	return e, false, nil
}

// walk returns the next entry, with its value if that is wanted or compared. The filters are not
// called here: they may use the transaction, whose mutex is held.
func (r *results) walk(wanted bool) (e dsq.Entry, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over {
		switch {
		case r.begun:
			r.it.Next()
		case !r.at:
			r.it.Rewind()
		}
		r.begun = true
		if err = r.d.check(r.ctx); err == nil && !r.it.Valid() {
			err = r.it.Err()
		}
		if err != nil || !r.it.Valid() {
			r.endWalkLocked()
			return dsq.Entry{}, false, err
		}
		item := r.it.Item()
		e = dsq.Entry{Key: string(item.Key()), Size: int(item.ValueSize())}
		if slices.Contains(r.plan.others, e.Key) {
			continue
		}
		if r.plan.query.ReturnExpirations {
			e.Expiration = item.ExpiresAt()
		}
		if wanted || r.plan.compares {
			if e.Value, err = item.ValueCopy(nil); err != nil {
				r.endWalkLocked()
				return dsq.Entry{}, false, err
			}
		}
		return e, true, nil
	}
	return dsq.Entry{}, false, nil
}

// sort reads all results and sorts them. With a limit it keeps no more than may be asked for.
func (r *results) sort() error {
	r.isSorted = true
	keep := math.MaxInt
	if r.left >= 0 && r.left < keep-r.skip {
		keep = r.skip + r.left
	}
	first := &lastOnTop{orders: r.plan.orders}
	for {
		e, ok, err := r.walk(!r.plan.query.KeysOnly)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if !r.plan.accepts(e) {
			continue
		}
		heap.Push(first, e)
		if first.Len() > keep {
			heap.Pop(first)
		}
	}
	dsq.Sort(r.plan.orders, first.entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sorted = first.entries[min(r.skip, first.Len()):]
	return nil
}

// lastOnTop is a heap of entries, the last one by the orders on top.
type lastOnTop struct {
	orders  []dsq.Order
	entries []dsq.Entry
}

func (h *lastOnTop) Len() int      { return len(h.entries) }
func (h *lastOnTop) Swap(i, j int) { h.entries[i], h.entries[j] = h.entries[j], h.entries[i] }
func (h *lastOnTop) Push(e any)    { h.entries = append(h.entries, e.(dsq.Entry)) }

func (h *lastOnTop) Less(i, j int) bool {
	return dsq.Compare(h.orders, h.entries[i], h.entries[j]) > 0
}

func (h *lastOnTop) Pop() any {
	n := len(h.entries) - 1
	e := h.entries[n]
	h.entries[n] = dsq.Entry{}
	h.entries = h.entries[:n]
	return e
}
