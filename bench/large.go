package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/wire"
)

const (
	largeSmall = 64 << 10   // bytes of the values with even numbers
	largeGreat = 2932 << 10 // and of those with odd ones
	largeReads = 2          // how often each value is read while it counts
)

// largeWorkloads have values of both sizes in turn, as files and their thumbnails.
func largeWorkloads() []Workload {
	figures := []Figure{
		{Name: "set 64 KB us", Better: Less}, {Name: "set 2932 KB us", Better: Less},
		{Name: "get 64 KB us", Better: Less}, {Name: "get 2932 KB us", Better: Less},
		{Name: "CPU us/MB", Better: Less}, {Name: "disk/raw", Better: Less},
	}
	const title = "values of 64 KB and 2,932 KB in turn, one goroutine, medians of calls, gets of what is in memory"
	return []Workload{
		{Name: "large", Title: title + ", buffered", Figures: figures, Kind: Once, Run: func(c *Cell) ([]float64, error) {
			return runLarge(c, false, unwrapped)
		}},
		{Name: "largesync", Title: title + ", durable on return", Figures: figures, Kind: Once, Run: func(c *Cell) ([]float64, error) {
			return runLarge(c, true, unwrapped)
		}},
		{
			Name: "largegrpc", Title: title + ", buffered, through a gRPC service in the same process", Figures: figures, Kind: Once,
			Stores: []string{"brock", "badger", "bbolt"},
			Run:    func(c *Cell) ([]float64, error) { return runLarge(c, false, wire.Serve) },
		},
	}
}

func unwrapped(s kv.Store) (kv.Store, error) { return s, nil }

// largeData is the pairs: the same number of each size.
type largeData struct {
	*Dataset
	pairs int
}

func newLargeData(bytes int64) largeData {
	pairs := 2 * max(1, int(bytes/(largeSmall+largeGreat)))
	return largeData{NewDataset(pairs, largeGreat), pairs}
}

func (d largeData) value(i int) []byte {
	if i%2 == 0 {
		return d.Value(i)[:largeSmall]
	}
	return d.Value(i)
}

func (d largeData) rawBytes() int64 {
	return int64(d.pairs) * (keySize + (largeSmall+largeGreat)/2)
}

func (d largeData) config(dir string) kv.Config {
	return kv.Config{Dir: dir, ValueSize: largeGreat, DataBytes: d.rawBytes()}
}

// runLarge writes and reads through whatever wrap puts before the store.
func runLarge(c *Cell, sync bool, wrap func(kv.Store) (kv.Store, error)) (figures []float64, err error) {
	data := newLargeData(c.Large)
	config := data.config(c.Dir)
	config.Sync = sync
	s, err := c.Maker.Open(config)
	if err != nil {
		return nil, err
	}
	through, err := wrap(s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	defer func() {
		if through != s {
			err = errors.Join(err, through.Close())
		}
		err = errors.Join(err, s.Close())
	}()
	settle()
	c.Waits.flushDisk()
	before := used()
	sets, err := data.timeBySize(inOrder(data.pairs), func(i int, key []byte) error { return through.Set(key, data.value(i)) })
	if err != nil {
		return nil, err
	}
	cpu := used().cpu - before.cpu
	if _, err := c.Waits.quiet(s); err != nil {
		return nil, err
	}
	c.Waits.flushDisk()
	get := func(i int, key []byte) error {
		sum, found, err := through.Get(key)
		if err == nil && (!found || sum != kv.Touch(data.value(i))) {
			err = fmt.Errorf("value %d: %w", i, errMismatch)
		}
		return err
	}
	rng := rand.New(rand.NewPCG(13, uint64(c.Slice)))
	if _, err := data.timeBySize(rng.Perm(data.pairs), get); err != nil {
		return nil, err
	}
	touchOnly := func(_ int, key []byte) error { return getPresent(through, key) }
	var order []int
	for range largeReads {
		order = append(order, rng.Perm(data.pairs)...)
	}
	settle()
	before = used()
	gets, err := data.timeBySize(order, touchOnly)
	if err != nil {
		return nil, err
	}
	cpu += used().cpu - before.cpu
	_, disk, err := diskSize(c.Dir)
	raw := float64(data.rawBytes())
	return []float64{
		percentile(sets[0], 50), percentile(sets[1], 50), percentile(gets[0], 50), percentile(gets[1], 50),
		float64(cpu.Microseconds()) / ((1 + largeReads) * raw / 1e6), float64(disk) / raw,
	}, err
}

// timeBySize times each call, and keeps apart those of the two sizes.
func (d largeData) timeBySize(order []int, op func(i int, key []byte) error) (took [2][]time.Duration, err error) {
	var key []byte
	for _, i := range order {
		key = d.AppendKey(key[:0], i)
		start := time.Now()
		if err := op(i, key); err != nil {
			return took, err
		}
		took[i%2] = append(took[i%2], time.Since(start))
	}
	return took, nil
}
