package brock

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
)

// Writer writes in bulk: any number of writes, in any order, in bounded memory. It is
// not atomic: it commits groups of writes as they fill. The writes of one goroutine
// are committed in their order. They are committed once Flush or Close has returned
// nil, and then as durable as Options.Durability says. It may be used by any number
// of goroutines.
//
// A write that is refused with ErrInvalid, as for a key that is too long, changes nothing. After any
// other error all later calls return it, and writes since the last successful Flush may be
// committed or not.
type Writer struct {
	db      *DB             // nil: its methods return ErrClosed
	ctx     context.Context // when it ends, so does the Writer
	closing sync.Once       // the first Close flushes, and others wait for it

	mu        sync.Mutex // guards:
	changed   sync.Cond  // committed or err has changed
	filling   *Batch     // the group that fills
	idle      *Batch     // the other one, which is empty; nil while it is being committed
	number    int64      // of the group that fills, counted from 1
	committed int64      // groups that are committed, or have failed
	closed    bool       // Close was called
	version   uint64     // of the newest group that was committed
	err       error      // the first error
}

// writerGroup is the size in bytes at which a Writer commits a group; 1/16 of a memtable if
// that is less. A memtable has whole groups, and while old readers keep others it is as small
// as that (policy.MemtableBytes). A Writer holds two groups: one fills while the other is being
// committed.
const writerGroup = 1 << 20

var errWriterClosed = fmt.Errorf("brock: writer is closed: %w", ErrInvalid)

// NewWriter returns a bulk writer. When ctx ends, its methods return ctx's error.
func (db *DB) NewWriter(ctx context.Context) *Writer { return db.main.NewWriter(ctx) }

// NewWriter is DB.NewWriter for keys of the keyspace.
func (k *Keyspace) NewWriter(ctx context.Context) *Writer {
	if k == nil || k.db == nil {
		return new(Writer)
	}
	w := &Writer{db: k.db, ctx: ctx, filling: k.db.NewBatch().In(k), idle: k.db.NewBatch().In(k), number: 1}
	if ctx == nil {
		w.err = errNilContext
	}
	w.changed.L = &w.mu
	return w
}

// Set writes a pair. Key and value are copied. It waits while both groups are full. Its errors
// are those of Batch.Set, those of an earlier commit, and the error of the writer's context; after
// Close it returns ErrInvalid.
func (w *Writer) Set(key, value []byte) error {
	return w.addWrite(&Entry{Key: key, Value: value}, entry.Set)
}

// SetEntry writes a pair with its attributes, as Set does.
func (w *Writer) SetEntry(e *Entry) error { return w.addWrite(e, entry.Set) }

// Delete deletes a key, as Set writes one.
func (w *Writer) Delete(key []byte) error { return w.addWrite(&Entry{Key: key}, entry.Delete) }

func (w *Writer) addWrite(e *Entry, kind entry.Kind) error {
	// The lock is held while the record is made, so that the writes of one goroutine
	// stay in their order.
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkWriterLocked(); err != nil {
		return err
	}
	if err := w.filling.addWrite(e, kind); err != nil {
		return err
	}
	if w.filling.Size() >= min(writerGroup, max(w.db.opts.Tuning.MemtableSize/16, minMemtableSize)) {
		w.handOverLocked(w.number)
	}
	return nil
}

// checkWriterLocked returns nil while writes are taken.
func (w *Writer) checkWriterLocked() error {
	switch {
	case w.db == nil:
		return ErrClosed
	case w.err != nil:
		return w.err
	case w.closed:
		return errWriterClosed
	}
	return w.ctx.Err()
}

// handOverLocked has the n-th group committed, as soon as the one before is. It does nothing if
// another caller has done so first.
func (w *Writer) handOverLocked(n int64) {
	// One group at a time is under way: that bounds memory to two groups, and keeps the order of
	// commits.
	for w.number == n && w.committed < n-1 {
		w.changed.Wait()
	}
	// After an error later groups are dropped: their order would have a gap.
	if w.number != n || w.err != nil {
		return
	}
	w.number++
	full := w.filling
	w.filling, w.idle = w.idle, nil
	// On a goroutine of its own, as the caller goes on to fill the next group meanwhile. Close
	// waits for it.
	go w.commitGroup(full)
}

// commitGroup commits a group, while the next one fills.
func (w *Writer) commitGroup(b *Batch) {
	// Buffered: one sync at Flush does for all groups. Synced, each would wait for the disk.
	version, err := b.Commit(w.ctx, Buffered)
	b.Reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = max(w.version, version)
	// The first error stays: those after it are only what follows from it.
	w.idle, w.err = b, cmp.Or(w.err, err)
	// A group that has failed counts too, or those who wait for it would wait for ever.
	w.committed++
	w.changed.Broadcast()
}

// Flush returns when everything written before the call is committed, and durable as
// Options.Durability says. It does not wait for what others write meanwhile. It returns the
// writer's first error.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkWriterLocked(); err != nil {
		return err
	}
	return w.flushLocked()
}

// Version returns the version of the newest group that was committed, 0 before the first one. After
// a Flush that has returned nil a reader at this version sees all that was written before it.
// Versions of groups rise in the order of the writes, and each write has that of its group.
func (w *Writer) Version() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version
}

// flushLocked commits what was written so far, and waits for it.
func (w *Writer) flushLocked() error {
	last := w.number
	if w.filling.Len() == 0 {
		last--
	}
	w.handOverLocked(last)
	// Also after an error, as a group that is under way may still be written. But not for what is
	// handed over meanwhile: beside busy writers Flush would never return.
	for w.committed < min(last, w.number-1) {
		w.changed.Wait()
	}
	if w.err != nil || !w.db.opts.isSynced(DefaultDurability) {
		return w.err
	}
	// The groups were committed without a sync: one at the end serves them all. The
	// writes of others go on meanwhile.
	w.mu.Unlock()
	err := w.db.Sync(w.ctx)
	w.mu.Lock()
	w.err = cmp.Or(w.err, err)
	return w.err
}

// Close flushes and ends the writer. It returns the writer's first error, each time
// that it is called.
func (w *Writer) Close() error {
	if w.db == nil {
		return ErrClosed
	}
	w.closing.Do(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		// Before the flush, which lets go of the lock: no write may come in behind it and be lost.
		w.closed = true
		_ = w.flushLocked() // w.err, from now on
		// The user may keep the Writer: its memory is of no use any more.
		w.filling, w.idle = nil, nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
