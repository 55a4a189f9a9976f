// Package owndata measures a store with the data that is in it: gets, misses and scans of
// the store itself, which is only read, and writes of its pairs to a scratch store that is
// removed again.
package owndata

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/vfs"
)

// Config says what is measured.
type Config struct {
	DB       *brock.DB       // opened read-only
	Keyspace *brock.Keyspace // nil = the default one
	Scratch  string          // directory below which the scratch store is made, on the disk to measure
	Time     time.Duration   // of each step
	Seed     uint64
	Done     func(Result) // called after each step
}

// Result is what one step has measured.
type Result struct {
	Name   string        `json:"name"`
	Ops    int64         `json:"operations"`
	Bytes  int64         `json:"bytes"` // of keys and values read or written
	Took   time.Duration `json:"nanoseconds"`
	P50    time.Duration `json:"p50Nanoseconds"` // of one operation
	P99    time.Duration `json:"p99Nanoseconds"`
	things string
}

// String returns one line with rates and latencies.
func (r Result) String() string {
	s := fmt.Sprintf("%-27s %17s", r.Name, human.Rate(r.Ops, r.things, r.Took))
	if r.Bytes > 0 {
		s += fmt.Sprintf(" %10s", human.ByteRate(r.Bytes, r.Took))
	} else {
		s += strings.Repeat(" ", 11)
	}
	if r.P99 > 0 {
		s += fmt.Sprintf("   p50 %s, p99 %s", human.Duration(r.P50), human.Duration(r.P99))
	}
	return s
}

// bench is a Run under way.
type bench struct {
	Config
	random *rand.Rand
	sample Sample
}

// Run measures one step after the other. It never writes to c.DB.
func Run(ctx context.Context, c Config) (Sample, error) {
	b := &bench{Config: c, random: rand.New(rand.NewPCG(c.Seed, 0))}
	var err error
	if b.sample, err = b.draw(ctx); err != nil {
		return b.sample, err
	}
	if len(b.sample.keys) == 0 {
		return b.sample, fmt.Errorf("%w: there is nothing in it", pairs.ErrInput)
	}
	all := runtime.GOMAXPROCS(0)
	for _, step := range []func() (Result, error){
		func() (Result, error) { return b.repeat(ctx, "get, 1 reader", "gets", 1, b.get) },
		func() (Result, error) { return b.repeat(ctx, fmt.Sprintf("get, %d readers", all), "gets", all, b.get) },
		func() (Result, error) { return b.repeat(ctx, "get of an absent key", "gets", 1, b.miss) },
		func() (Result, error) { return b.repeat(ctx, "scan of 100 pairs", "scans", 1, b.scan) },
		func() (Result, error) { return b.walk(ctx) },
	} {
		r, err := step()
		if err != nil {
			return b.sample, err
		}
		c.Done(r)
	}
	return b.sample, b.writes(ctx)
}

func (b *bench) estimate() (entries, size int64) {
	if b.Keyspace != nil {
		return b.Keyspace.EstimateSize(nil, nil)
	}
	return b.DB.EstimateSize(nil, nil)
}

func (b *bench) split() [][]byte {
	if b.Keyspace != nil {
		return b.Keyspace.Split(nil, nil, places)
	}
	return b.DB.Split(nil, nil, places)
}

func (b *bench) view(ctx context.Context, fn func(*brock.Txn) error) error {
	return b.DB.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return fn(txn.In(b.Keyspace)) })
}

// worker is one goroutine of a step.
type worker struct {
	random *rand.Rand
	ops    int64
	bytes  int64
	took   []time.Duration // of operations, of all or of a sample
	sum    byte            // of bytes read, so that they are read
}

const mostTimes = 1 << 20

// note keeps how long an operation took; of very many, it keeps each with the same chance.
func (w *worker) note(d time.Duration) {
	w.ops++
	if len(w.took) < mostTimes {
		w.took = append(w.took, d)
	} else if i := w.random.Int64N(w.ops); i < mostTimes {
		w.took[i] = d
	}
}

// touch reads a value's bytes: of a mapped file, not before they are used.
func (w *worker) touch(value []byte) {
	for i := 0; i < len(value); i += 64 { // a cache line
		w.sum += value[i]
	}
	w.bytes += int64(len(value))
}

// repeat runs workers that repeat an operation on keys drawn at random, for the time of a step.
func (b *bench) repeat(ctx context.Context, name, things string, workers int, op func(*worker, *brock.Txn, []byte) error) (Result, error) {
	ws, errs := make([]worker, workers), make([]error, workers)
	var wait sync.WaitGroup
	begin := time.Now()
	for i := range ws {
		w := &ws[i]
		w.random = rand.New(rand.NewPCG(b.Seed, uint64(i)+1))
		wait.Go(func() {
			for errs[i] == nil && ctx.Err() == nil && time.Since(begin) < b.Time {
				// A transaction keeps what it read; many short ones are what programs have.
				errs[i] = b.view(ctx, func(txn *brock.Txn) error {
					for range 64 {
						key := b.sample.keys[w.random.IntN(len(b.sample.keys))]
						at := time.Now()
						if err := op(w, txn, key); err != nil {
							return err
						}
						w.note(time.Since(at))
					}
					return nil
				})
			}
		})
	}
	wait.Wait()
	return sumUp(name, things, ws, time.Since(begin)), errors.Join(append(errs, ctx.Err())...)
}

func sumUp(name, things string, ws []worker, took time.Duration) Result {
	r := Result{Name: name, things: things, Took: took}
	var times []time.Duration
	for i := range ws {
		r.Ops, r.Bytes, times = r.Ops+ws[i].ops, r.Bytes+ws[i].bytes, append(times, ws[i].took...)
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		r.P50, r.P99 = times[n/2], times[n*99/100]
	}
	return r
}

func (b *bench) get(w *worker, txn *brock.Txn, key []byte) error {
	item, err := txn.Get(key)
	if errors.Is(err, brock.ErrKeyNotFound) { // it has expired
		return nil
	}
	if err != nil {
		return err
	}
	value, err := item.Value()
	w.touch(value)
	w.bytes += int64(len(key))
	return err
}

func (b *bench) miss(_ *worker, txn *brock.Txn, key []byte) error {
	if _, err := txn.Get(absent(key)); !errors.Is(err, brock.ErrKeyNotFound) {
		return err
	}
	return nil
}

func (b *bench) scan(w *worker, txn *brock.Txn, key []byte) error {
	return readAllOf(w, txn, brock.IteratorOptions{Lower: key, Limit: 100}, nil)
}

func readAllOf(w *worker, txn *brock.Txn, o brock.IteratorOptions, more func() bool) error {
	for item, err := range txn.Items(o) {
		if err != nil {
			return err
		}
		value, err := item.Value()
		if err != nil {
			return err
		}
		w.touch(value)
		w.bytes += int64(len(item.Key()))
		if more != nil && !more() {
			break
		}
	}
	return nil
}

// walk reads pairs in order from the first, or again from there, for the time of a step.
func (b *bench) walk(ctx context.Context) (Result, error) {
	var w worker
	begin := time.Now()
	going := func() bool {
		w.ops++
		return w.ops%256 != 0 || time.Since(begin) < b.Time && ctx.Err() == nil
	}
	for ctx.Err() == nil && time.Since(begin) < b.Time {
		err := b.view(ctx, func(txn *brock.Txn) error { return readAllOf(&w, txn, brock.IteratorOptions{}, going) })
		if err != nil {
			return Result{}, err
		}
	}
	return sumUp("scan of all pairs in order", "pairs", []worker{w}, time.Since(begin)), ctx.Err()
}

// free refuses a disk that the scratch store could fill.
func (b *bench) free() error {
	const need = 2 * mostWritten
	if free, err := vfs.OS().Free(b.Scratch); err == nil && free >= 0 && free < need {
		return fmt.Errorf("%s are free in %s, and the scratch store may need %s; name another place", human.Bytes(free), b.Scratch, human.Bytes(need))
	}
	return nil
}

// scratch runs fn with a new store, which is removed whatever happens.
func (b *bench) scratch(ctx context.Context, fn func(*brock.DB) error) (err error) {
	dir, err := os.MkdirTemp(b.Scratch, "brock-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := brock.Options{Dir: dir, MustBeNew: true, DiskLimit: 2 * mostWritten, Keys: b.DB.Options().Keys}
	if b.Keyspace != nil {
		o.KeyspaceDefaults = b.Keyspace.Options()
		o.KeyspaceDefaults.TTL = 0
	}
	db, err := brock.OpenContext(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}
