package brockds

import (
	"context"
	"sync"

	ds "github.com/ipfs/go-datastore"

	"github.com/brockdb/brock"
)

// batch is a group of writes that are committed together. go-datastore doesn't say whether several
// goroutines may fill one; they may.
type batch struct {
	d *Datastore

	mu     sync.Mutex // guards:
	writes *brock.Batch
}

// Batch begins a group of writes, which Commit makes visible together: more than go-datastore asks
// for. A large one keeps its writes in files. It need not be committed. Any number of goroutines may
// use it. After Commit its methods return brock.ErrInvalid.
func (d *Datastore) Batch(ctx context.Context) (ds.Batch, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	return &batch{d: d, writes: d.keys.NewBatch()}, nil
}

// Put adds a pair, which is copied.
func (b *batch) Put(ctx context.Context, key ds.Key, value []byte) error {
	if err := b.d.check(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writes.Set(key.Bytes(), value)
}

// Delete adds the delete of key.
func (b *batch) Delete(ctx context.Context, key ds.Key) error {
	if err := b.d.check(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writes.Delete(key.Bytes())
}

// Commit writes all or nothing, with the durability of the Datastore.
func (b *batch) Commit(ctx context.Context) error {
	if err := b.d.check(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.writes.Commit(ctx, brock.DefaultDurability)
	return err
}
