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
	now         atomic.Pointer[openKeyspace]
	noteStopped func() // asks for another store in the place of one that has stopped

	// walk is held alone by a Walk, and shared by writes: what a Walk has seen must not change
	// before its operations are applied. A transaction that conflicts and runs again would do, too,
	// but then its function would see entries twice.
	walk sync.RWMutex
}

// openKeyspace is a keyspace in the store that is open now.
type openKeyspace struct {
	*brock.Keyspace
	store *store
}

// do calls fn, and once more if the store had stopped and another one has taken its place. If there
// is none after the first attempt to open one, it returns why the store has stopped.
func (k *keyspace) do(ctx context.Context, again bool, fn func(*openKeyspace) error) error {
	o := k.now.Load()
	err := fn(o)
	if !errors.Is(err, brock.ErrStopped) && !errors.Is(err, brock.ErrClosed) {
		return err
	}
	k.noteStopped()
	select {
	case <-o.store.over:
	case <-ctx.Done():
		return err
	}
	next := k.now.Load()
	switch {
	case next != o && again:
		return fn(next)
	case o.store.cause != nil:
		return o.store.cause
	}
	return err
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
	var value []byte
	err := c.keyspace.do(ctx, true, func(o *openKeyspace) (err error) {
		value, err = presentValue(o.Get([]byte(key)))
		return err
	})
	return value, err
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
// have set, and after an error nothing was written, unless it is brock.ErrStopped: then it may have
// been. The values of Get operations are copies, and mean nothing after an error. Values of Set
// operations are copied.
func (c *client) Batch(ctx context.Context, ops ...*storage.Operation) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	gets, writes, err := countOperations(ops)
	switch {
	case err != nil || gets+writes == 0:
		return err
	case writes == 0:
		return c.keyspace.do(ctx, true, func(o *openKeyspace) error {
			return o.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return execute(txn, ops) })
		})
	}
	return c.keyspace.do(ctx, !readsBeforeWrite(ops), func(o *openKeyspace) error {
		c.keyspace.walk.RLock()
		defer c.keyspace.walk.RUnlock()
		return o.store.room.commit(ctx, o.Keyspace, ops, func() error {
			if gets == 0 {
				return o.commitWrites(ctx, ops)
			}
			return o.commitMixed(ctx, ops)
		})
	})
}

// readsBeforeWrite reports whether operations read a key and write it later. They must not be executed
// twice: a commit that was interrupted may be in the store, and its Get would see its Set.
func readsBeforeWrite(ops []*storage.Operation) bool {
	read := make(map[string]bool)
	for _, op := range ops {
		if op.Type == storage.Get {
			read[op.Key] = true
		} else if read[op.Key] {
			return true
		}
	}
	return false
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
func (k *openKeyspace) commitWrites(ctx context.Context, ops []*storage.Operation) error {
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
func (k *openKeyspace) commitMixed(ctx context.Context, ops []*storage.Operation) error {
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
	// Not twice: fn would see entries again.
	return c.keyspace.do(ctx, false, func(o *openKeyspace) error {
		c.keyspace.walk.Lock()
		defer c.keyspace.walk.Unlock()
		return o.walk(ctx, fn)
	})
}

func (k *openKeyspace) walk(ctx context.Context, fn storage.WalkFunc) error {
	txn, err := k.store.db.Begin(ctx, brock.TxnOptions{Update: true})
	if err != nil {
		return err
	}
	defer txn.Discard()
	txn = txn.In(k.Keyspace)
	ops, err := collectOperations(ctx, txn, fn)
	if err != nil {
		return err
	}
	if _, writes, err := countOperations(ops); err != nil {
		return err
	} else if writes > 0 {
		if err := k.store.room.admit(ctx, k.Keyspace, ops); err != nil {
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
