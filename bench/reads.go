package main

import (
	"fmt"
	"time"
)

const manyReaders = 16

func readWorkloads() []Workload {
	timed := []Figure{{"p50 us", Less}, {"p99 us", Unrated}, {"CPU us/op", Less}, {"allocs/op", Unrated}}
	return []Workload{
		{
			Name:    "get",
			Title:   "values of %d B, random keys, a read transaction each, whole value touched, everything in memory",
			Figures: timed, Kind: Loaded,
			Run: func(c *Cell) ([]float64, error) {
				keys := c.Data.Sample(c.Ops, uint64(c.Round), false)
				return timeCalls(len(keys), func(i int) error { return getPresent(c.Store, keys[i]) })
			},
		},
		{
			Name:    "get16",
			Title:   "values of %d B, the same from 16 goroutines",
			Figures: []Figure{{"k/s", More}, {"CPU us/op", Less}, {"allocs/op", Unrated}}, Kind: Loaded,
			Run: runGetMany,
		},
		{
			Name:    "miss",
			Title:   "values of %d B, a missing key that lies between others",
			Figures: timed, Kind: Loaded,
			Run: func(c *Cell) ([]float64, error) {
				keys := c.Data.Sample(c.Ops, uint64(c.Round), true)
				return timeCalls(len(keys), func(i int) error {
					found, err := c.Store.Has(keys[i])
					if found {
						err = fmt.Errorf("%q is there: %w", keys[i], errMismatch)
					}
					return err
				})
			},
		},
	}
}

func getPresent(s Store, key []byte) error {
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
	return []float64{
		percentile(took, 50), percentile(took, 99),
		perCall(after.cpu-before.cpu, n), float64(after.mallocs-before.mallocs) / float64(n),
	}, nil
}

// perCall is d over n calls in microseconds.
func perCall(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }

func runGetMany(c *Cell) ([]float64, error) {
	keys := c.Data.Sample(c.Ops, uint64(c.Round), false)
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
	return []float64{
		float64(n) / after.at.Sub(before.at).Seconds() / 1e3,
		perCall(after.cpu-before.cpu, n), float64(after.mallocs-before.mallocs) / float64(n),
	}, err
}
