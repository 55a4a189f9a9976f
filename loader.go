package brock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// LoadOptions say how a Loader loads.
type LoadOptions struct {
	// Sorted: the keys come in rising order (bytes.Compare), each one once. The load then goes
	// directly to its files, once: it is several times as fast as a Writer.
	Sorted bool
	// Replace deletes what the keyspace held before, in the commit of the load.
	Replace bool
	// MaxMemory is how many bytes of memory the pairs take; more go to files, a sorted load's at the
	// latest from 256 KB on. 0 = 1/8 of Options.MemoryLimit; at most 1 GiB.
	MaxMemory int64
}

// Loader loads any number of pairs into one keyspace as one commit, in bounded memory: a few
// megabytes if LoadOptions.Sorted is set, and LoadOptions.MaxMemory if not, or with values of 1 MiB
// and more. Nothing of it is visible before Finish, and then all. If it is aborted, fails, or
// the process ends before, it leaves nothing. Others read and commit meanwhile: Finish holds them up
// about as long as any commit.
//
// End a Loader by Finish or Abort. The files of one that is lost without that are removed when the
// garbage collector finds it. One goroutine at a time may use it. Any number of Loaders may load
// into a keyspace at once: of two with one key, the one that finishes later counts, and so it does
// beside other writers.
//
// A pair that is refused with ErrInvalid changes nothing, and the load goes on. Any other error ends
// the load: all later calls return it.
type Loader struct {
	db       *DB // nil: its methods return ErrClosed
	keyspace *Keyspace
	ctx      context.Context // when it ends, so does the load
	writes   writes
	last     []byte // the last key, if the load is sorted; nil: there was none
	key      []byte // scratch for the next one; at first it is not nil
	err      error  // why the load has ended
}

var errLoaderEnded = fmt.Errorf("brock: loader has ended: %w", ErrInvalid)

// NewLoader begins a load into the keyspace. When ctx ends, the load fails with its error.
func (k *Keyspace) NewLoader(ctx context.Context, o LoadOptions) (*Loader, error) {
	if err := k.checkExists(); err != nil {
		return nil, err
	}
	t := TxnOptions{MaxMemory: o.MaxMemory}
	if err := cmp.Or(t.validateTxn(), checkWork(ctx, k.db)); err != nil {
		return nil, err
	}
	l := &Loader{db: k.db, keyspace: k, ctx: ctx, key: []byte{}}
	l.writes.limit, l.writes.sorted = k.db.opts.txnMemory(o.MaxMemory), o.Sorted
	if o.Replace {
		// The first write, so it covers nothing of the load.
		if err := l.writes.deleteRange(k, nil, nil); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Set adds a pair. Key and value are copied. In a sorted load a key that is not greater than the one
// before is refused with ErrInvalid, and the error names it. Other errors are those of Batch.Set and
// of the context.
func (l *Loader) Set(key, value []byte) error { return l.SetEntry(&Entry{Key: key, Value: value}) }

// SetEntry adds a pair with its attributes, as Set does.
func (l *Loader) SetEntry(e *Entry) error {
	if err := l.checkLoading(); err != nil {
		return err
	}
	err := l.addPair(e)
	// A pair that was refused is all that is missing. Behind any other error more may be.
	if err != nil && (l.writes.Err() != nil || !errors.Is(err, ErrInvalid)) {
		l.endLoad(err)
	}
	return err
}

func (l *Loader) addPair(e *Entry) error {
	w := &l.writes
	if w.sorted {
		if err := l.checkRising(e); err != nil {
			return err
		}
	}
	if err := w.finishWrite(l.ctx, l.db, w.addWrite(l.ctx, l.keyspace, e, entry.Set, l.db.now)); err != nil {
		return err
	}
	l.last, l.key = l.key, l.last
	return nil
}

// checkLoading returns nil while pairs are taken. It ends the load if that can't go on.
func (l *Loader) checkLoading() error {
	if l.db == nil {
		return ErrClosed
	}
	if l.err == nil {
		if err := cmp.Or(l.keyspace.checkExists(), errs.Ended(l.ctx)); err != nil {
			l.endLoad(err)
		}
	}
	return l.err
}

// checkRising refuses the key of e if it is not greater than the last one. It copies the key.
func (l *Loader) checkRising(e *Entry) (err error) {
	if err := e.checkLimits(); err != nil {
		return err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	l.key = append(l.key[:0], e.Key...)
	if l.last != nil && bytes.Compare(l.key, l.last) <= 0 {
		return fmt.Errorf("brock: key %.100q is not greater than the one before, %.100q: %w", l.key, l.last, ErrInvalid)
	}
	return nil
}

// Finish commits the load and returns its version; 0 if there is nothing to commit. The load is
// durable when it returns nil. Its errors are those of Batch.Commit: after an ErrStopped it is not
// known whether the load was committed, and after any other error nothing is left of it. Whatever
// it returns, the load has ended.
func (l *Loader) Finish() (version uint64, err error) {
	if err := l.checkLoading(); err != nil {
		return 0, err
	}
	var v entry.Version
	if l.writes.Len() > 0 {
		v, err = l.writes.commitUnchecked(l.ctx, l.db, true)
	}
	l.endLoad(cmp.Or(err, errLoaderEnded))
	return uint64(v), err
}

// Abort ends the load and removes its files. After Finish, or a second time, it does nothing.
func (l *Loader) Abort() {
	if l.db != nil && l.err == nil {
		l.endLoad(errLoaderEnded)
	}
}

// endLoad makes err the result of all later calls, and gives up all that the load holds.
func (l *Loader) endLoad(err error) {
	l.err = err
	l.writes.discardFiles() // unless they were committed
	// The user may keep the Loader: its memory is of no use any more.
	l.writes, l.last, l.key = writes{}, nil, nil
}
