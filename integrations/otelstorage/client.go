package otelstorage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock"
)

var (
	errClientClosed = errors.New("storage is closed")
	errOperation    = errors.New("wrong operation type")
)

// keyspace is what the clients of one storage have in common.
type keyspace struct {
	*brock.Keyspace
	db   *brock.DB
	room *room

	// walk is held alone by a Walk, and shared by writes: what a Walk has seen must not change
	// before its operations are applied. A transaction that conflicts and runs again would do, too,
	// but then its function would see entries twice.
	walk sync.RWMutex
}

// client is a storage.Client and storage.Walker. Any number of goroutines may use it. Writes
// return storage.ErrStorageFull if there is no room, and else errors for which errors.Is finds
// those of package brock.
type client struct {
	keyspace *keyspace
	closed   atomic.Bool
}

var (
	_ storage.Client = (*client)(nil)
	_ storage.Walker = (*client)(nil)
)

// checkUsable returns an error if the client is closed or ctx has ended.
func (c *client) checkUsable(ctx context.Context) error {
	if c.closed.Load() {
		return errClientClosed
	}
	return ctx.Err()
}

// Get returns a copy of the value of key, which is not nil, or nil if there is none.
func (c *client) Get(ctx context.Context, key string) ([]byte, error) {
	if err := c.checkUsable(ctx); err != nil {
		return nil, err
	}
	return presentValue(c.keyspace.Get([]byte(key)))
}

// presentValue tells a value that is empty from one that is absent, which is nil and no error.
func presentValue(value []byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, brock.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case value == nil:
		return []byte{}, nil
	}
	return value, nil
}

// Set stores a copy of value.
func (c *client) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

// Delete deletes the value of key, if there is one.
func (c *client) Delete(ctx context.Context, key string) error {
	return c.Batch(ctx, storage.DeleteOperation(key))
}

// Batch executes the operations in order, as one transaction: a Get sees what operations before it
// have set, and after an error nothing was written. The values of Get operations are copies, and
// mean nothing after an error. Values of Set operations are copied.
func (c *client) Batch(ctx context.Context, ops ...*storage.Operation) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	gets, writes, err := countOperations(ops)
	switch {
	case err != nil || gets+writes == 0:
		return err
	case writes == 0:
		return c.keyspace.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return execute(txn, ops) })
	}
	c.keyspace.walk.RLock()
	defer c.keyspace.walk.RUnlock()
	return c.keyspace.room.commit(ctx, c.keyspace, ops, func() error {
		if gets == 0 {
			return c.keyspace.commitWrites(ctx, ops)
		}
		return c.keyspace.commitMixed(ctx, ops)
	})
}

// countOperations counts the operations that read and those that write. It returns an error if one
// can't be executed.
func countOperations(ops []*storage.Operation) (gets, writes int, err error) {
	for _, op := range ops {
		switch {
		case op == nil:
			return 0, 0, errOperation
		case op.Type == storage.Get:
			gets++
		case op.Type == storage.Set, op.Type == storage.Delete:
			writes++
		default:
			return 0, 0, errOperation
		}
	}
	return gets, writes, nil
}

// commitWrites executes operations that read nothing. A brock.Batch never conflicts.
func (k *keyspace) commitWrites(ctx context.Context, ops []*storage.Operation) error {
	batch := k.NewBatch()
	for _, op := range ops {
		var err error
		if op.Type == storage.Set {
			err = batch.Set([]byte(op.Key), op.Value)
		} else {
			err = batch.Delete([]byte(op.Key))
		}
		if err != nil {
			return err
		}
	}
	_, err := batch.Commit(ctx, brock.DefaultDurability)
	return err
}

// commitMixed executes operations of which some read. What they write doesn't depend on what they
// read, so they can run again after a conflict with another batch.
func (k *keyspace) commitMixed(ctx context.Context, ops []*storage.Operation) error {
	for {
		err := k.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return execute(txn, ops) })
		// Callers of a storage expect no conflicts. Each one means that another batch was committed,
		// so this ends.
		if !errors.Is(err, brock.ErrConflict) {
			return err
		}
	}
}

// execute executes operations in a transaction.
func execute(txn *brock.Txn, ops []*storage.Operation) (err error) {
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value, err = readValue(txn, []byte(op.Key))
		case storage.Set:
			err = txn.Set([]byte(op.Key), op.Value)
		case storage.Delete:
			err = txn.Delete([]byte(op.Key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readValue(txn *brock.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if err != nil {
		return presentValue(nil, err)
	}
	return presentValue(item.ValueCopy(nil))
}

// Walk calls fn for each entry, in the order of the keys, as they are when Walk begins, and then
// executes the operations that it has returned, as one transaction with what fn has seen. It
// returns storage.ErrStorageFull if there is no room for them. fn may read by clients of this
// storage, but if it writes by one, that waits for ever. It must not change or keep the value.
func (c *client) Walk(ctx context.Context, fn storage.WalkFunc) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	c.keyspace.walk.Lock()
	defer c.keyspace.walk.Unlock()
	txn, err := c.keyspace.db.Begin(ctx, brock.TxnOptions{Update: true})
	if err != nil {
		return err
	}
	defer txn.Discard()
	txn = txn.In(c.keyspace.Keyspace)
	ops, err := collectOperations(ctx, txn, fn)
	if err != nil {
		return err
	}
	if _, writes, err := countOperations(ops); err != nil {
		return err
	} else if writes > 0 {
		if err := c.keyspace.room.admit(ctx, c.keyspace, ops); err != nil {
			return err
		}
	}
	if err := execute(txn, ops); err != nil {
		return translate(err)
	}
	return translate(txn.CommitContext(ctx))
}

// collectOperations calls fn for each entry, and returns the operations.
func collectOperations(ctx context.Context, txn *brock.Txn, fn storage.WalkFunc) (all []*storage.Operation, err error) {
	var value []byte
	for item, err := range txn.All() {
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// A copy: fn gets no pointer into a mapped file, where a mistake would end the process.
		if value, err = item.ValueCopy(value[:0]); err != nil {
			return nil, err
		}
		ops, err := fn(string(item.Key()), value)
		if err != nil && !errors.Is(err, storage.SkipAll) {
			return nil, err
		}
		all = append(all, ops...)
		if err != nil {
			break
		}
	}
	return all, nil
}

// Close ends the client. Its calls return an error from then on; those of other clients go on. A
// second Close does nothing.
func (c *client) Close(context.Context) error {
	c.closed.Store(true)
	return nil
}
