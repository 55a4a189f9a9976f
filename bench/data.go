package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

const (
	keySize   = 22
	batchSize = 1000
	loaders   = 4
	poolBytes = 16 << 20
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

// RawBytes is the length of all keys and values.
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

// Value is the value of key number i. It must not be changed.
func (d *Dataset) Value(i int) []byte {
	at := (uint64(i) * 0x9e3779b97f4a7c15 >> 20) % poolBytes
	return d.pool[at : at+uint64(d.ValueSize)]
}

// Tally is what a scan of the whole store must come to.
func (d *Dataset) Tally(values bool) Tally {
	t := Tally{Entries: d.Keys}
	var key []byte
	for i := range d.Keys {
		key = d.AppendKey(key[:0], i)
		t.add(key)
		if values {
			t.add(d.Value(i))
		}
	}
	return t
}

// Load writes all pairs in random order, in batches of 1000 from 4 goroutines.
func (d *Dataset) Load(s Store) error {
	order := rand.New(rand.NewPCG(2, uint64(d.Keys))).Perm(d.Keys)
	batches := make(chan []int, loaders)
	errs := make(chan error, loaders)
	var wg sync.WaitGroup
	for range loaders {
		wg.Go(func() {
			var failed bool
			for numbers := range batches {
				if failed {
					continue
				}
				if err := s.Load(d.batch(numbers)); err != nil {
					errs <- err
					failed = true
				}
			}
		})
	}
	for len(order) > 0 {
		n := min(batchSize, len(order))
		batches <- order[:n]
		order = order[n:]
	}
	close(batches)
	wg.Wait()
	close(errs)
	return <-errs
}

func (d *Dataset) batch(numbers []int) *Batch {
	b := &Batch{Keys: make([][]byte, len(numbers)), Values: make([][]byte, len(numbers))}
	keys := make([]byte, 0, len(numbers)*keySize)
	for i, n := range numbers {
		at := len(keys)
		keys = d.AppendKey(keys, n)
		b.Keys[i], b.Values[i] = keys[at:len(keys):len(keys)], d.Value(n)
	}
	return b
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
func (d *Dataset) lost(s Store) (int, error) {
	got, err := s.ScanKeys()
	if err != nil || got.Entries == d.Keys {
		return 0, errors.Join(err, d.Check(s))
	}
	return d.Keys - got.Entries, nil
}

// Check reads the whole store and compares it with what it must hold.
func (d *Dataset) Check(s Store) error {
	want := d.Tally(true)
	if got, err := s.ScanValues(); err != nil || got != want {
		return fmt.Errorf("scan with values saw %v, want %v: %w", got, want, orMismatch(err))
	}
	want = d.Tally(false)
	if got, err := s.ScanKeys(); err != nil || got != want {
		return fmt.Errorf("scan of keys saw %v, want %v: %w", got, want, orMismatch(err))
	}
	return nil
}
