package main

import (
	"fmt"

	"github.com/brockdb/brock/bench/internal/kv"
)

const seekPairs = 50

func scanWorkloads() []Workload {
	perEntry := []Figure{{Name: "ns/entry", Better: Less}, {Name: "CPU ns/entry", Better: Less}, {Name: "allocs/entry"}}
	return []Workload{
		{
			Name: "scankeys", Title: "values of %d B, all keys in order, no value read",
			Figures: perEntry, Kind: Loaded,
			Run: func(c *Cell) ([]float64, error) { return timeScan(c, false) },
		},
		{
			Name: "scanvalues", Title: "values of %d B, all keys and values in order",
			Figures: perEntry, Kind: Loaded,
			Run: func(c *Cell) ([]float64, error) { return timeScan(c, true) },
		},
		{
			Name: "seek", Title: "values of %d B, new iterator, seek to a random key, 50 pairs with their values",
			Figures: []Figure{{Name: "p50 us", Better: Less}, {Name: "p99 us"}, {Name: "CPU us/op", Better: Less}, {Name: "allocs/op"}},
			Kind:    Loaded,
			Run:     runSeek,
		},
		{
			Name: "last", Title: "values of %d B, a read transaction each, the greatest key",
			Figures: []Figure{{Name: "p50 us", Better: Less}, {Name: "p99 us"}, {Name: "CPU us/op", Better: Less}, {Name: "allocs/op"}},
			Kind:    Loaded, Stores: []string{"brock", "badger", "pebble", "bbolt", "goleveldb"},
			Run: runLast,
		},
	}
}

// runLast asks for the greatest key, as a log does that wants to know where it ends.
func runLast(c *Cell) ([]float64, error) {
	want := kv.Touch(c.Data.AppendKey(nil, c.Data.Keys-1))
	store := c.Store.(kv.Ender)
	return timeCalls(c.Ops, func(int) error {
		sum, err := store.Last()
		if err == nil && sum != want {
			err = fmt.Errorf("another key: %w", errMismatch)
		}
		return err
	})
}

// timeScan times one scan of the whole store. What it saw was checked once
// before, by Dataset.Check; here the count must do.
func timeScan(c *Cell, values bool) ([]float64, error) {
	settle()
	before := used()
	t, err := scan(c.Store, nil, -1, values)
	after := used()
	if err == nil && t.Entries != c.Data.Keys {
		err = fmt.Errorf("scan saw %d entries of %d: %w", t.Entries, c.Data.Keys, errMismatch)
	}
	if err != nil {
		return nil, err
	}
	n := float64(t.Entries)
	return []float64{
		float64(after.at.Sub(before.at).Nanoseconds()) / n,
		float64((after.cpu - before.cpu).Nanoseconds()) / n,
		float64(after.mallocs-before.mallocs) / n,
	}, nil
}

func runSeek(c *Cell) ([]float64, error) {
	keys := c.Data.Sample(max(1, c.Ops/20), uint64(c.Slice), false)
	return timeCalls(len(keys), func(i int) error {
		t, err := scan(c.Store, keys[i], seekPairs, true)
		if err == nil && t.Entries == 0 {
			err = fmt.Errorf("no entry from %q on: %w", keys[i], errMismatch)
		}
		return err
	})
}
