package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// Plan is what a run is to do.
type Plan struct {
	Makers    []kv.Maker
	Workloads []Workload
	Sizes     []Size
	Slices    int    // measurements of each workload on each store
	Ops       int    // timed calls in a slice
	Large     int64  // bytes that workloads with large values write
	Cold      Colder // data larger than memory
	Dir       string // a directory of our own, to be emptied
	Log       io.Writer
	Waits     Waits
}

// Size is a number of pairs with values of one size.
type Size struct{ Bytes, Keys int }

// runner carries a plan out.
type runner struct {
	Plan
	loaded   map[string]bool // directories in which a load has left its store
	report   func(*result.Table)
	progress *progress
}

// Run measures all that is planned, store beside store, and hands over each
// table as soon as it is complete. It returns what it had to leave out.
func (p Plan) Run(report func(*result.Table)) (leftOut []string, err error) {
	r := &runner{Plan: p, loaded: map[string]bool{}, report: report, progress: newProgress(p.Log)}
	r.planSteps()
	for _, size := range p.Sizes {
		data := NewDataset(size.Keys, size.Bytes)
		for _, w := range r.kind(Fresh) {
			r.fresh(w, data)
		}
		if err := errors.Join(r.reads(data), r.forget()); err != nil {
			return leftOut, err
		}
	}
	if len(r.kind(Cold)) > 0 {
		why, err := r.cold()
		if err := errors.Join(err, r.forget()); err != nil {
			return leftOut, err
		}
		leftOut = append(leftOut, why...)
	}
	for _, w := range r.kind(Once) {
		r.fresh(w, nil)
	}
	r.progress.end()
	return leftOut, nil
}

// planSteps tells the progress which steps there will be.
func (r *runner) planSteps() {
	for _, size := range r.Sizes {
		n := len(r.makers(size.Bytes, Workload{}))
		if len(r.kind(First, Loaded, Mixed)) > 0 && len(r.named("load")) == 0 {
			r.progress.plan(stepName("load", size.Bytes), n)
		}
		for _, w := range r.kind(Fresh, Loaded, Mixed) {
			r.progress.plan(stepName(w.Name, size.Bytes), r.Slices*len(r.makers(size.Bytes, w)))
		}
		for _, w := range r.kind(First) {
			r.progress.plan(stepName(w.Name, size.Bytes), len(r.makers(size.Bytes, w)))
		}
	}
	if n := len(r.makers(r.Cold.Size.Bytes, Workload{})); len(r.kind(Cold)) > 0 {
		r.progress.plan(coldLoad, n)
		r.progress.plan(largeLoad, n*len(r.which(func(w Workload) bool { return w.Kind == Cold && w.Cold.Do == "large" })))
	}
	for _, w := range r.kind(Cold) {
		r.progress.plan(stepName(w.Name, r.Cold.Size.Bytes), r.Slices*len(r.makers(r.Cold.Size.Bytes, w)))
	}
	for _, w := range r.kind(Once) {
		r.progress.plan(stepName(w.Name, 0), r.Slices*len(r.makers(onceValue, w)))
	}
}

func stepName(workload string, size int) string { return fmt.Sprintf("%s %d B", workload, size) }

// onceValue is the size of values that a store must be made for to take part in
// workloads without a size of their own.
const onceValue = commitValue

func (r *runner) kind(kinds ...Kind) []Workload {
	return r.which(func(w Workload) bool { return slices.Contains(kinds, w.Kind) })
}

func (r *runner) named(name string) []Workload {
	return r.which(func(w Workload) bool { return w.Name == name })
}

func (r *runner) which(want func(Workload) bool) (list []Workload) {
	for _, w := range r.Workloads {
		if want(w) {
			list = append(list, w)
		}
	}
	return list
}

// makers returns the stores that take part in a workload with values of this size.
func (r *runner) makers(size int, w Workload) []kv.Maker {
	var list []kv.Maker
	for _, m := range r.Makers {
		if size >= m.MinValue && (w.Stores == nil || slices.Contains(w.Stores, m.Name)) {
			list = append(list, m)
		}
	}
	return list
}

func newTable(w Workload, makers []kv.Maker, data *Dataset) *result.Table {
	t := &result.Table{Workload: w.Name, Title: w.Title, Columns: w.Figures}
	if data != nil {
		t.Title, t.ValueSize, t.Keys = fmt.Sprintf(w.Title, data.ValueSize), data.ValueSize, data.Keys
	}
	for _, m := range makers {
		t.Rows = append(t.Rows, &result.Row{Store: m.Name})
	}
	return t
}

// storeDir returns the directory of a loaded store.
func (r *runner) storeDir(m kv.Maker, data *Dataset) string {
	return filepath.Join(r.Dir, fmt.Sprintf("%s-%d-%d", m.Name, data.ValueSize, data.Keys))
}

func (r *runner) cell(m kv.Maker, data *Dataset, dir string) *Cell {
	return &Cell{Maker: m, Data: data, Dir: dir, Ops: r.Ops, Large: r.Large, Waits: r.Waits}
}

// fresh runs a workload that makes its own stores, in turn; only one is open at
// a time. The last load of each is kept for the reads.
func (r *runner) fresh(w Workload, data *Dataset) {
	size := onceValue
	if data != nil {
		size = data.ValueSize
	}
	makers := r.makers(size, w)
	t := newTable(w, makers, data)
	for slice := range r.Slices {
		for i, m := range makers {
			keep := w.Name == "load" && slice == r.Slices-1 && len(r.kind(First, Loaded, Mixed)) > 0
			c := r.cell(m, data, filepath.Join(r.Dir, "fresh-"+m.Name))
			if keep {
				c.Dir = r.storeDir(m, data)
			}
			c.Slice = slice
			row := t.Rows[i]
			if err := os.MkdirAll(c.Dir, 0o700); err != nil {
				row.Error = err.Error()
				continue
			}
			r.measure(w, c, t, row)
			if keep && row.Error == "" {
				r.loaded[c.Dir] = true
			} else if err := os.RemoveAll(c.Dir); err != nil {
				row.Error = err.Error()
			}
		}
	}
	r.report(t)
}

// measure takes one slice; a row that has failed takes no more.
func (r *runner) measure(w Workload, c *Cell, t *result.Table, row *result.Row) {
	r.progress.begin(stepName(w.Name, t.ValueSize), fmt.Sprintf("%s %s, slice %d", w.Name, c.Maker.Name, c.Slice+1))
	r.slice(t, row, func() ([]float64, error) { return w.Run(c) })
}

// slice adds what run measures to a row, and what others did meanwhile to the table.
func (r *runner) slice(t *result.Table, row *result.Row, run func() ([]float64, error)) {
	if row.Error != "" {
		return
	}
	t.Noise.Spin = append(t.Noise.Spin, spin())
	n := watchNoise()
	values, err := run()
	if err != nil {
		row.Error = err.Error()
		return
	}
	t.Noise.Other = append(t.Noise.Other, n.other())
	row.Slices = append(row.Slices, values)
}

// forget removes the stores that loads have left.
func (r *runner) forget() error {
	for dir := range r.loaded {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		delete(r.loaded, dir)
	}
	return nil
}

// load fills a store for reading, unless a workload has left one.
func (r *runner) load(m kv.Maker, data *Dataset, step string) error {
	dir := r.storeDir(m, data)
	if r.loaded[dir] {
		return nil
	}
	r.progress.begin(step, "loading "+m.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_, err := runLoad(r.cell(m, data, dir))
	r.loaded[dir] = err == nil
	return err
}
