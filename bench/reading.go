package main

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// reading is one workload that runs on loaded stores, with the table that it fills.
type reading struct {
	Workload
	table *result.Table
}

// reads runs the workloads on loaded stores, for values of one size.
func (r *runner) reads(data *Dataset) error {
	makers := r.makers(data.ValueSize, Workload{})
	var first, later []reading
	for _, w := range r.kind(First) {
		first = append(first, reading{w, newTable(w, makers, data)})
	}
	for _, k := range []Kind{Loaded, Mixed} {
		for _, w := range r.kind(k) {
			later = append(later, reading{w, newTable(w, makers, data)})
		}
	}
	if len(first)+len(later) == 0 {
		return nil
	}
	for _, m := range makers {
		if err := r.load(m, data, stepName("load", data.ValueSize)); err != nil {
			return fmt.Errorf("load %s: %w", m.Name, err)
		}
	}
	// Beside the files in the page cache a store may have all data in its own.
	group := len(makers)
	if memoryAvailable() < int64(len(makers))*data.RawBytes()*3 {
		fmt.Fprintln(r.Log, "the stores don't fit into memory together: one after the other")
		group = 1
	}
	for i := 0; i < len(makers); i += group {
		if err := r.readGroup(first, later, makers, i, min(i+group, len(makers)), data); err != nil {
			return err
		}
	}
	for _, w := range append(first, later...) {
		r.report(w.table)
	}
	return nil
}

// readGroup opens the stores from number lo to hi, does what is done first on
// each, and lets each do a slice of each workload in turn, beginning with another
// store each time.
func (r *runner) readGroup(first, later []reading, makers []kv.Maker, lo, hi int, data *Dataset) (err error) {
	var open []*Cell
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Store.Close())
		}
	}()
	for i := lo; i < hi; i++ {
		c := r.cell(makers[i], data, r.storeDir(makers[i], data))
		config := c.config()
		config.Overwrites = len(r.kind(Mixed)) > 0
		if c.Store, err = c.Maker.Open(config); err != nil {
			return fmt.Errorf("open %s: %w", c.Maker.Name, err)
		}
		open = append(open, c)
		if _, err := r.Waits.quiet(c.Store); err != nil {
			return fmt.Errorf("open %s: %w", c.Maker.Name, err)
		}
		for _, w := range first {
			r.measure(w.Workload, c, w.table, w.table.Rows[i])
		}
		if err := r.warm(c); err != nil {
			return fmt.Errorf("warm up %s: %w", c.Maker.Name, err)
		}
	}
	if _, err := r.Waits.rest(); err != nil {
		return err
	}
	r.Waits.flushDisk()
	for _, w := range later {
		for slice := range r.Slices {
			for i := range open {
				at := (slice + i) % len(open)
				open[at].Slice = slice
				r.measure(w.Workload, open[at], w.table, w.table.Rows[lo+at])
			}
		}
	}
	return nil
}

// warm checks everything in an opened store, and reads enough to fill its caches. The work that
// the store does because of that is done before anything is timed.
func (r *runner) warm(c *Cell) error {
	if err := c.Data.Check(c.Store); err != nil {
		return err
	}
	for _, k := range c.Data.Sample(2*r.Ops, 1<<32, false) {
		if err := getPresent(c.Store, k); err != nil {
			return err
		}
	}
	return nil
}
