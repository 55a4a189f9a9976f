package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/bench/internal/kv"
)

const (
	keySize    = 22
	batchPairs = 1000    // most pairs of a batch of a load
	batchBytes = 4 << 20 // and most bytes of their values
	loaders    = 4
	poolBytes  = 16 << 20
)

// Dataset is the pairs of one store: keys of 22 bytes as in badger-bench, with
// the even numbers below 2*Keys, and random values. It holds no pair in memory.
type Dataset struct {
	Keys      int
	ValueSize int
	pool      []byte // values are cut from it
}

// NewDataset returns the pairs for a number of keys and a size of values;
// always the same ones.
func NewDataset(keys, valueSize int) *Dataset {
	pool := make([]byte, poolBytes+valueSize)
	rng := rand.NewPCG(1, uint64(valueSize))
	for i := 0; i+8 <= len(pool); i += 8 {
		binary.LittleEndian.PutUint64(pool[i:], rng.Uint64())
	}
	return &Dataset{Keys: keys, ValueSize: valueSize, pool: pool}
}

// RawBytes returns the length of all keys and values, in bytes.
func (d *Dataset) RawBytes() int64 { return int64(d.Keys) * int64(keySize+d.ValueSize) }

// AppendKey appends key number i: "vsz=%05d-k=%010d".
func (d *Dataset) AppendKey(dst []byte, i int) []byte { return d.appendNumber(dst, 2*i) }

// AppendMissing appends a key that lies just behind key number i, and that no store has.
func (d *Dataset) AppendMissing(dst []byte, i int) []byte { return d.appendNumber(dst, 2*i+1) }

func (d *Dataset) appendNumber(dst []byte, n int) []byte {
	dst = append(dst, "vsz=00000-k=0000000000"...)
	digits(dst[len(dst)-18:len(dst)-13], d.ValueSize)
	digits(dst[len(dst)-10:], n)
	return dst
}

func digits(dst []byte, n int) {
	for i := len(dst) - 1; n > 0 && i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// Value returns the value of key number i. Don't change it.
func (d *Dataset) Value(i int) []byte {
	at := (uint64(i) * 0x9e3779b97f4a7c15 >> 20) % poolBytes
	return d.pool[at : at+uint64(d.ValueSize)]
}

// Tally returns the result that a scan of the whole store must have.
func (d *Dataset) Tally(values bool) kv.Tally {
	t := kv.Tally{Entries: d.Keys}
	var key []byte
	for i := range d.Keys {
		key = d.AppendKey(key[:0], i)
		t.Add(key)
		if values {
			t.Add(d.Value(i))
		}
	}
	return t
}

// Load writes all pairs in random order, in batches from 4 goroutines.
func (d *Dataset) Load(s kv.Store) error {
	write, err := loader(s)
	if err != nil {
		return err
	}
	order := newPermutation(uint64(d.Keys), 2)
	size := max(1, min(batchPairs, batchBytes/(d.ValueSize+1)))
	var next atomic.Int64
	return parallel(loaders, func(int) error {
		batch := newLoadBatch(size)
		for {
			from := int(next.Add(int64(size))) - size
			if from >= d.Keys {
				return nil
			}
			batch.reset()
			for i := from; i < min(from+size, d.Keys); i++ {
				batch.add(d, int(order.of(uint64(i))))
			}
			if err := write(batch.changes); err != nil {
				return err
			}
		}
	})
}

var errNoBatches = errors.New("the store takes no batches")

// loader returns the function by which a store takes many pairs.
func loader(s kv.Store) (func([]kv.Change) error, error) {
	switch s := s.(type) {
	case kv.Loader:
		return s.Load, nil
	case kv.Batcher:
		return s.Apply, nil
	}
	return nil, errNoBatches
}

// loadBatch is a list of pairs. Its memory is used again for the next list.
type loadBatch struct {
	keys    []byte
	changes []kv.Change
}

func newLoadBatch(size int) *loadBatch {
	return &loadBatch{keys: make([]byte, 0, size*keySize), changes: make([]kv.Change, 0, size)}
}

func (b *loadBatch) reset() { b.keys, b.changes = b.keys[:0], b.changes[:0] }

func (b *loadBatch) add(d *Dataset, i int) {
	at := len(b.keys)
	b.keys = d.AppendKey(b.keys, i)
	b.changes = append(b.changes, kv.Change{Key: b.keys[at:len(b.keys):len(b.keys)], Value: d.Value(i)})
}

// Sample returns n keys, drawn evenly with the seed; missing ones if asked for.
func (d *Dataset) Sample(n int, seed uint64, missing bool) [][]byte {
	rng := rand.New(rand.NewPCG(3, seed))
	buf := make([]byte, 0, n*keySize)
	keys := make([][]byte, n)
	for i := range keys {
		at := len(buf)
		if k := rng.IntN(d.Keys); missing {
			buf = d.AppendMissing(buf, k)
		} else {
			buf = d.AppendKey(buf, k)
		}
		keys[i] = buf[at:len(buf):len(buf)]
	}
	return keys
}

// lost counts the pairs that a store which was killed lacks: buffered writes
// need not have left the process in every store.
func (d *Dataset) lost(s kv.Store) (int, error) {
	got, err := scan(s, nil, -1, false)
	if err != nil || got.Entries == d.Keys {
		return 0, errors.Join(err, d.Check(s))
	}
	return d.Keys - got.Entries, nil
}

// Check reads the whole store and compares it with what it must hold.
func (d *Dataset) Check(s kv.Store) error {
	for _, values := range []bool{true, false} {
		want := d.Tally(values)
		if got, err := scan(s, nil, -1, values); err != nil || got != want {
			return fmt.Errorf("scan (values: %v) saw %v, want %v: %w", values, got, want, orMismatch(err))
		}
	}
	return nil
}

// scan walks a store that can be walked.
func scan(s kv.Store, from []byte, limit int, values bool) (kv.Tally, error) {
	if s, ok := s.(kv.Scanner); ok {
		return s.Scan(from, limit, values)
	}
	return kv.Tally{}, errors.New("the store can't be scanned")
}

// parallel runs fn on n goroutines and returns their errors.
func parallel(n int, fn func(worker int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() { errs[w] = fn(w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
