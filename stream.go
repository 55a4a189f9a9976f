package brock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/errs"
)

// StreamOptions say what a Stream reads, and how. The zero value is all keys of the newest version.
type StreamOptions struct {
	Lower, Upper []byte // only keys in [Lower, Upper); nil = no bound
	Prefix       []byte // only keys that begin with Prefix
	KeysOnly     bool   // read no value before Item.Value asks for it
	ReadAt       uint64 // version to read, as TxnOptions.ReadAt; 0 = the newest
	Workers      int    // goroutines, at most 1024; 0 = GOMAXPROCS. More of them keep a disk busy when little of the data is in memory
}

func (o *StreamOptions) validateStream() error {
	switch {
	case o.Workers < 0:
		return &OptionError{Field: "Workers", Reason: "is negative"}
	case o.Workers > 1024:
		return &OptionError{Field: "Workers", Reason: "is above 1024"}
	}
	return nil
}

// partsPerWorker is how many parts of a Stream there are for each of its goroutines: while one of
// them reads a part that is larger than Split has thought, the others read the rest.
const partsPerWorker = 8

// errStreamLeft says that fn has ended its goroutine, as testing.T.FailNow does.
var errStreamLeft = errors.New("brock: a function of Stream has not returned")

// Stream reads the keys of the keyspace with many goroutines, as of one version. It cuts them into
// parts of about the same size (Split) and calls fn once for each part, with its number and its
// items in the order of keys; the parts are numbered in the order of keys, too, from 0. So a key
// comes exactly once. At most Workers calls run at the same time, each in a goroutine of Stream. An
// item is valid until the next one of its part is yielded, and nothing after fn has returned.
//
// Stream returns when all calls have returned. The first error ends it, also an error that items has
// yielded and fn did not return: items of other parts yield it, and no more parts begin. Stream
// returns that error; else those of ViewContext, or that of ctx. As with other functions that start
// goroutines, a panic in fn ends the process: no caller can recover from it.
func (k *Keyspace) Stream(ctx context.Context, o StreamOptions, fn func(part int, items iter.Seq2[*Item, error]) error) error {
	if err := o.validateStream(); err != nil {
		return err
	}
	if fn == nil {
		return errNilFunction
	}
	if err := checkContext(ctx); err != nil {
		return err
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	// The transaction has no context: with one each step would ask it, and so does part.items, at
	// times.
	return k.ViewContext(context.Background(), TxnOptions{ReadAt: o.ReadAt}, func(t *Txn) error {
		all := IteratorOptions{Lower: o.Lower, Upper: o.Upper, Prefix: o.Prefix, KeysOnly: o.KeysOnly}
		ranges, err := t.cutRange(all, o.Workers*partsPerWorker)
		if err != nil {
			return err
		}
		s := &stream{caller: ctx, txn: t, ranges: ranges}
		s.ctx, s.cancel = context.WithCancelCause(ctx)
		defer s.cancel(nil)
		var workers sync.WaitGroup
		for range min(o.Workers, len(ranges)) {
			workers.Go(func() { s.readParts(fn) })
		}
		workers.Wait()
		// With fewer parts than ranges and no error, the context has ended between two parts, or a
		// worker has.
		if s.err == nil && s.read.Load() < int64(len(ranges)) {
			return cmp.Or(s.endReason(), errStreamLeft)
		}
		return s.err
	})
}

// stream is a Stream under way.
type stream struct {
	caller context.Context
	ctx    context.Context // ends with caller, or with the first error
	cancel context.CancelCauseFunc
	txn    *Txn
	ranges []IteratorOptions // of the parts

	begun, read atomic.Int64 // parts
	failing     sync.Once    // sets:
	err         error        // the first error
}

// endReason says why s.ctx has ended; nil while it has not.
func (s *stream) endReason() error { return cmp.Or(errs.Ended(s.caller), context.Cause(s.ctx)) }

// readParts reads parts until none is left.
func (s *stream) readParts(fn func(part int, items iter.Seq2[*Item, error]) error) {
	for s.ctx.Err() == nil {
		i := int(s.begun.Add(1)) - 1
		if i >= len(s.ranges) {
			return
		}
		p := part{stream: s, o: s.ranges[i]}
		// First the call, which sets p.err.
		err := fn(i, p.items)
		if err = cmp.Or(err, p.err); err != nil {
			s.failing.Do(func() { s.err = err })
			s.cancel(err)
			return
		}
		s.read.Add(1)
	}
}

// cutRange cuts what o walks into n parts or fewer, in the order of keys.
func (t *Txn) cutRange(o IteratorOptions, n int) (parts []IteratorOptions, err error) {
	if err := t.checkAddressed(); err != nil {
		return nil, err
	}
	slo, shi, err := t.keyspace.storedBounds(nil, o.Lower, o.Upper, o.Prefix)
	if err != nil {
		return nil, err
	}
	for _, stored := range t.pin.SplitRange(slo, shi, n) {
		// A bound of the keyspace itself has no user part, and cuts nothing off.
		if cut := userBound(stored); cut != nil {
			before := o
			before.Upper, o.Lower = cut, cut
			parts = append(parts, before)
		}
	}
	return append(parts, o), nil
}

// part is one part of a Stream under way.
type part struct {
	*stream
	o   IteratorOptions
	err error // that its items have yielded
}

// lookEvery is how many items pass between two looks at the context.
const lookEvery = 64

// items yields the items of the part, until the Stream ends.
func (p *part) items(yield func(*Item, error) bool) {
	n := 0
	for it, err := range p.txn.Items(p.o) {
		if n++; err == nil && n%lookEvery == 1 {
			err = p.endReason()
		}
		if err != nil {
			p.err = err
			yield(nil, err)
			return
		}
		if !yield(it, nil) {
			return
		}
	}
}
