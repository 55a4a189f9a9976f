package owndata

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

const (
	mostHeld    = 64 << 20  // bytes of pairs that are kept in memory, to be written
	mostWritten = 512 << 20 // bytes of pairs that one step writes
	manyWriters = 16
)

// pair is a pair of the sample.
type pair struct{ key, value []byte }

// hold reads pairs of the sample into memory.
func (b *bench) hold(ctx context.Context) (held []pair, err error) {
	size := 0
	err = b.view(ctx, func(txn *brock.Txn) error {
		for _, key := range b.sample.keys {
			item, err := txn.Get(key)
			if errors.Is(err, brock.ErrKeyNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			held = append(held, pair{key, value})
			if size += len(key) + len(value); size > mostHeld {
				return nil
			}
		}
		return nil
	})
	if err == nil && len(held) == 0 {
		err = errors.New("all that was drawn has expired")
	}
	return held, err
}

// writes measures writes of the sample's pairs to scratch stores, each a new one. A pair
// that is written again gets another key, so that stores grow as with new data.
func (b *bench) writes(ctx context.Context) error {
	if err := b.free(); err != nil {
		return err
	}
	held, err := b.hold(ctx)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name    string
		writers int
		set     func(db *brock.DB) func(key, value []byte) error
	}{
		{"durable set, 1 writer", 1, durable},
		{fmt.Sprintf("durable set, %d writers", manyWriters), manyWriters, durable},
		{"bulk load", 1, nil},
	} {
		var r Result
		err := b.scratch(ctx, func(db *brock.DB) (err error) {
			if step.set == nil {
				r, err = b.load(ctx, db, held)
				return err
			}
			r, err = b.write(ctx, step.writers, held, step.set(db))
			return err
		})
		if err != nil {
			return err
		}
		r.Name = step.name
		b.Done(r)
	}
	return nil
}

func durable(db *brock.DB) func(key, value []byte) error { return db.Set }

// write runs writers that set pairs, each its own.
func (b *bench) write(ctx context.Context, writers int, held []pair, set func(key, value []byte) error) (Result, error) {
	ws, errs := make([]worker, writers), make([]error, writers)
	var wait sync.WaitGroup
	begin := time.Now()
	for i := range ws {
		w := &ws[i]
		w.random = rand.New(rand.NewPCG(b.Seed, uint64(i)+1))
		wait.Go(func() {
			for n := i; errs[i] == nil && ctx.Err() == nil && time.Since(begin) < b.Time && w.bytes < mostWritten/int64(writers); n += writers {
				p := nth(held, n)
				at := time.Now()
				errs[i] = set(p.key, p.value)
				w.note(time.Since(at))
				w.bytes += int64(len(p.key) + len(p.value))
			}
		})
	}
	wait.Wait()
	return sumUp("", "sets", ws, time.Since(begin)), errors.Join(append(errs, ctx.Err())...)
}

// load measures the bulk writer, with the sync at its end.
func (b *bench) load(ctx context.Context, db *brock.DB, held []pair) (Result, error) {
	var w worker
	begin := time.Now()
	bulk := db.NewWriter(ctx)
	for n := 0; ctx.Err() == nil && time.Since(begin) < b.Time && w.bytes < mostWritten; n++ {
		p := nth(held, n)
		if err := bulk.Set(p.key, p.value); err != nil {
			return Result{}, errors.Join(err, bulk.Close())
		}
		w.ops++
		w.bytes += int64(len(p.key) + len(p.value))
	}
	err := bulk.Close()
	return sumUp("", "sets", []worker{w}, time.Since(begin)), errors.Join(err, ctx.Err())
}

// nth returns the n-th pair to write: first the pairs of the sample, then the same pairs with a
// number behind the key.
func nth(held []pair, n int) pair {
	p := held[n%len(held)]
	if round := n / len(held); round > 0 && len(p.key) < brock.MaxKeySize-8 {
		p.key = binary.BigEndian.AppendUint64(p.key[:len(p.key):len(p.key)], uint64(round))
	}
	return p
}
