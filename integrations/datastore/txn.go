package brockds

import (
	"context"
	"sync"
	"time"

	ds "github.com/ipfs/go-datastore"
	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
)

// txn is a transaction. A brock.Txn belongs to one goroutine at a time; the mutex lets callers use
// this one as they use a Datastore.
type txn struct {
	d      *Datastore
	writes bool // it is not read-only

	mu sync.Mutex // guards:
	t  *brock.Txn
}

var (
	_ ds.Txn = (*txn)(nil)
	_ ds.TTL = (*txn)(nil)
)

// NewTransaction begins a transaction, which reads one version of the Datastore, and its own writes.
// Its Commit returns brock.ErrConflict, and has written nothing, if something that it has read was
// changed by others: run it again. What it hands out also implements ds.TTL. End it by Commit or
// Discard; after that its methods return brock.ErrTxnDone.
//
// ctx ends the call only: each method has its own. An open transaction keeps the files that it reads.
func (d *Datastore) NewTransaction(ctx context.Context, readOnly bool) (ds.Txn, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	t, err := d.db.Begin(context.WithoutCancel(ctx), brock.TxnOptions{Update: !readOnly})
	if err != nil {
		return nil, err
	}
	return &txn{d: d, writes: !readOnly, t: t.In(d.keys)}, nil
}

// use runs fn with the transaction.
func (x *txn) use(ctx context.Context, fn func(t *brock.Txn) error) error {
	if err := x.d.check(ctx); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return fn(x.t)
}

// Get returns a copy of the value of key, or ds.ErrNotFound.
func (x *txn) Get(ctx context.Context, key ds.Key) (value []byte, err error) {
	err = x.use(ctx, func(t *brock.Txn) error {
		item, err := t.Get(key.Bytes())
		if err != nil {
			return notFound(err)
		}
		value, err = item.ValueCopy(nil)
		return err
	})
	return value, err
}

// Has reports whether key has a value.
func (x *txn) Has(ctx context.Context, key ds.Key) (found bool, err error) {
	err = x.use(ctx, func(t *brock.Txn) error {
		found, err = t.Has(key.Bytes())
		return err
	})
	return found, err
}

// GetSize returns the length of the value of key; -1 and ds.ErrNotFound if there is none.
func (x *txn) GetSize(ctx context.Context, key ds.Key) (size int, err error) {
	size = -1
	err = x.use(ctx, func(t *brock.Txn) error {
		size, err = getSize(t, key)
		return err
	})
	return size, err
}

// Query is Datastore.Query of what the transaction sees at this moment. Commit and Discard end it.
func (x *txn) Query(ctx context.Context, q dsq.Query) (res dsq.Results, err error) {
	p, err := planQuery(q)
	if err != nil {
		return nil, err
	}
	err = x.use(ctx, func(t *brock.Txn) error {
		res = x.d.newResults(ctx, p, t, x.writes, &x.mu, nil)
		return nil
	})
	return res, err
}

// Put writes a pair.
func (x *txn) Put(ctx context.Context, key ds.Key, value []byte) error {
	return x.use(ctx, func(t *brock.Txn) error { return t.Set(key.Bytes(), value) })
}

// Delete removes key.
func (x *txn) Delete(ctx context.Context, key ds.Key) error {
	return x.use(ctx, func(t *brock.Txn) error { return t.Delete(key.Bytes()) })
}

// PutWithTTL is Datastore.PutWithTTL.
func (x *txn) PutWithTTL(ctx context.Context, key ds.Key, value []byte, ttl time.Duration) error {
	return x.use(ctx, func(t *brock.Txn) error {
		e, err := expiring(key, value, ttl)
		if err != nil {
			return err
		}
		return t.SetEntry(e)
	})
}

// SetTTL is Datastore.SetTTL.
func (x *txn) SetTTL(ctx context.Context, key ds.Key, ttl time.Duration) error {
	return x.use(ctx, func(t *brock.Txn) error { return setTTL(t, key, ttl) })
}

// GetExpiration is Datastore.GetExpiration.
func (x *txn) GetExpiration(ctx context.Context, key ds.Key) (at time.Time, err error) {
	err = x.use(ctx, func(t *brock.Txn) error {
		at, err = getExpiration(t, key)
		return err
	})
	return at, err
}

// Commit writes all or nothing, with the durability of the Datastore, and ends the transaction, also
// with an error.
func (x *txn) Commit(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.d.check(ctx); err != nil {
		x.t.Discard()
		return err
	}
	return x.t.CommitContext(ctx)
}

// Discard ends the transaction, and drops its writes. It does nothing after a Commit or Discard.
func (x *txn) Discard(context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.t.Discard()
}
