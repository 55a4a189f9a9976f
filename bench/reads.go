package main

import (
	"fmt"

	"github.com/brockdb/brock/bench/internal/kv"
)

const manyReaders = 16

func readWorkloads() []Workload {
	timed := []Figure{{Name: "p50 us", Better: Less}, {Name: "p99 us"}, {Name: "CPU us/op", Better: Less}, {Name: "allocs/op"}}
	return []Workload{
		{
			Name:    "get",
			Title:   "values of %d B, random keys, a read transaction each, whole value touched, everything in memory",
			Figures: timed, Kind: Loaded,
			Run: func(c *Cell) ([]float64, error) {
				keys := c.Data.Sample(c.Ops, uint64(c.Slice), false)
				return timeCalls(len(keys), func(i int) error { return getPresent(c.Store, keys[i]) })
			},
		},
		{
			Name:    "get16",
			Title:   "values of %d B, the same from 16 goroutines",
			Figures: []Figure{{Name: "k/s", Better: More}, {Name: "CPU us/op", Better: Less}, {Name: "allocs/op"}}, Kind: Loaded,
			Run: runGetMany,
		},
		{
			Name:    "miss",
			Title:   "values of %d B, a missing key that lies between others",
			Figures: timed, Kind: Loaded,
			Run: func(c *Cell) ([]float64, error) {
				keys := c.Data.Sample(c.Ops, uint64(c.Slice), true)
				return timeCalls(len(keys), func(i int) error {
					found, err := has(c.Store, keys[i])
					if found {
						err = fmt.Errorf("%q is there: %w", keys[i], errMismatch)
					}
					return err
				})
			},
		},
	}
}

func getPresent(s kv.Store, key []byte) error {
	_, found, err := s.Get(key)
	if err == nil && !found {
		err = fmt.Errorf("%q is missing: %w", key, errMismatch)
	}
	return err
}

// timeCalls times n calls and returns p50, p99, CPU time and allocations.
func timeCalls(n int, op func(i int) error) ([]float64, error) {
	settle()
	before := used()
	took, err := latencies(n, op)
	after := used()
	if err != nil {
		return nil, err
	}
	cpu, mallocs, _, _ := after.since(before, n)
	return []float64{percentile(took, 50), percentile(took, 99), cpu, mallocs}, nil
}

// has asks for a key without its value, if the store can be asked so.
func has(s kv.Store, key []byte) (bool, error) {
	if p, ok := s.(kv.Prober); ok {
		return p.Has(key)
	}
	_, found, err := s.Get(key)
	return found, err
}

func runGetMany(c *Cell) ([]float64, error) {
	keys := c.Data.Sample(c.Ops, uint64(c.Slice), false)
	settle()
	before := used()
	err := parallel(manyReaders, func(worker int) error {
		for i := worker; i < len(keys); i += manyReaders {
			if err := getPresent(c.Store, keys[i]); err != nil {
				return err
			}
		}
		return nil
	})
	after := used()
	n := len(keys)
	cpu, mallocs, _, _ := after.since(before, n)
	return []float64{float64(n) / after.at.Sub(before.at).Seconds() / 1e3, cpu, mallocs}, err
}
