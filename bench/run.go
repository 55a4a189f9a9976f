package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Plan is what a run is to do.
type Plan struct {
	Makers    []Maker
	Workloads []Workload
	Sizes     []int // bytes of a value
	Keys      int   // pairs; 0 = as each workload likes
	Rounds    int
	Ops       int    // timed calls a round
	Dir       string // a directory of our own, to be emptied
	Log       io.Writer
}

// Result is one row of a table: a workload on a store.
type Result struct {
	Workload  string      `json:"workload"`
	Store     string      `json:"store"`
	ValueSize int         `json:"value_size,omitempty"`
	Keys      int         `json:"keys,omitempty"`
	Figures   []string    `json:"figures"`
	Rounds    [][]float64 `json:"rounds"` // each round's values, in the order of Figures
	Error     string      `json:"error,omitempty"`
}

// median returns the medians over the rounds.
func (r *Result) median() []float64 {
	m := make([]float64, len(r.Figures))
	for i := range m {
		column := make([]float64, len(r.Rounds))
		for j, values := range r.Rounds {
			column[j] = values[i]
		}
		m[i] = median(column)
	}
	return m
}

// Table is a workload with one value size: a Result for each store.
type Table struct {
	Workload Workload
	Title    string
	Rows     []*Result
}

// runner carries a plan out.
type runner struct {
	Plan
	loaded map[string]bool // directories in which a load has left its store
	report func(*Table)
}

// Run measures all that is planned, store beside store, and hands over each
// table as soon as it is complete.
func (p Plan) Run(report func(*Table)) error {
	r := &runner{Plan: p, loaded: map[string]bool{}, report: report}
	for _, size := range p.Sizes {
		for _, w := range p.Workloads {
			if w.Kind == Fresh {
				r.fresh(w, NewDataset(r.keys(w, size), size), fmt.Sprintf(w.Title, size))
			}
		}
		if err := r.reads(size); err != nil {
			return err
		}
	}
	for _, w := range p.Workloads {
		if w.Kind == Once {
			r.fresh(w, nil, w.Title)
		}
	}
	return nil
}

func (r *runner) keys(w Workload, size int) int {
	switch {
	case r.Keys > 0:
		return r.Keys
	case w.Kind == Loaded || w.Kind == First:
		return readKeys(size)
	default:
		return loadKeys(size)
	}
}

// makers returns the stores that take part with values of this size.
func (r *runner) makers(size int) []Maker {
	var list []Maker
	for _, m := range r.Makers {
		if size >= m.MinValue {
			list = append(list, m)
		}
	}
	return list
}

func newTable(w Workload, title string, makers []Maker, data *Dataset) *Table {
	t := &Table{Workload: w, Title: title}
	for _, m := range makers {
		row := &Result{Workload: w.Name, Store: m.Name}
		for _, f := range w.Figures {
			row.Figures = append(row.Figures, f.Name)
		}
		if data != nil {
			row.ValueSize, row.Keys = data.ValueSize, data.Keys
			t.Title = fmt.Sprintf("%s (%s pairs)", title, group(data.Keys))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// storeDir is where a loaded store lies.
func (r *runner) storeDir(m Maker, data *Dataset) string {
	return filepath.Join(r.Dir, fmt.Sprintf("%s-%d-%d", m.Name, data.ValueSize, data.Keys))
}

// fresh runs a workload that makes its own stores, in turn; only one is open at
// a time. The last load of each is kept for the reads.
func (r *runner) fresh(w Workload, data *Dataset, title string) {
	size := commitValue
	if data != nil {
		size = data.ValueSize
	}
	t := newTable(w, title, r.makers(size), data)
	for round := range r.Rounds {
		for i, m := range r.makers(size) {
			c := &Cell{Maker: m, Data: data, Round: round, Ops: r.Ops, Dir: filepath.Join(r.Dir, "fresh-"+m.Name)}
			if keep := w.Name == "load" && round == r.Rounds-1; keep {
				c.Dir = r.storeDir(m, data)
			}
			row := t.Rows[i]
			if err := os.MkdirAll(c.Dir, 0o700); err != nil {
				row.Error = err.Error()
				continue
			}
			r.measure(w, c, row)
			if w.Name == "load" && round == r.Rounds-1 && row.Error == "" {
				r.loaded[c.Dir] = true
			} else if err := os.RemoveAll(c.Dir); err != nil {
				row.Error = err.Error()
			}
		}
	}
	r.report(t)
}

func (r *runner) measure(w Workload, c *Cell, row *Result) {
	if row.Error != "" {
		return
	}
	fmt.Fprintf(r.Log, "%s %s, round %d\n", w.Name, c.Maker.Name, c.Round+1)
	values, err := w.Run(c)
	if err != nil {
		row.Error = err.Error()
		return
	}
	row.Rounds = append(row.Rounds, values)
}

// reads runs the workloads that read, on stores loaded with values of one size.
func (r *runner) reads(size int) error {
	var tables, first []*Table
	makers := r.makers(size)
	data := NewDataset(r.keys(Workload{Kind: Loaded}, size), size)
	for _, w := range r.Workloads {
		switch w.Kind {
		case First:
			first = append(first, newTable(w, fmt.Sprintf(w.Title, size), makers, data))
		case Loaded:
			tables = append(tables, newTable(w, fmt.Sprintf(w.Title, size), makers, data))
		}
	}
	if len(first)+len(tables) > 0 {
		for _, m := range makers {
			if err := r.load(m, data); err != nil {
				return fmt.Errorf("load %s: %w", m.Name, err)
			}
		}
		// Beside the files in the page cache a store may have all data in its own.
		together := memoryAvailable() > int64(len(makers))*data.RawBytes()*3
		if err := r.readGroups(first, tables, makers, data, together); err != nil {
			return err
		}
		for _, t := range slices.Concat(first, tables) {
			r.report(t)
		}
	}
	for dir := range r.loaded {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		delete(r.loaded, dir)
	}
	return nil
}

func (r *runner) load(m Maker, data *Dataset) error {
	dir := r.storeDir(m, data)
	if r.loaded[dir] {
		return nil
	}
	fmt.Fprintf(r.Log, "loading %s for reading\n", m.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_, err := runLoad(&Cell{Maker: m, Data: data, Dir: dir})
	r.loaded[dir] = err == nil
	return err
}

// readGroups reads from all stores side by side, or from one after the other if
// they don't fit into memory together.
func (r *runner) readGroups(first, tables []*Table, makers []Maker, data *Dataset, together bool) error {
	if together {
		return r.readGroup(first, tables, makers, 0, data)
	}
	fmt.Fprintln(r.Log, "the stores don't fit into memory together: one after the other")
	for i := range makers {
		if err := r.readGroup(first, tables, makers[i:i+1], i, data); err != nil {
			return err
		}
	}
	return nil
}

// readGroup opens the stores, whose rows begin with the given one, does what is
// done first on each, and lets each do a slice of each workload in every round,
// beginning with another store each time.
func (r *runner) readGroup(first, tables []*Table, makers []Maker, firstRow int, data *Dataset) (err error) {
	var open []*Cell
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Store.Close())
		}
	}()
	for _, m := range makers {
		c := &Cell{Maker: m, Data: data, Dir: r.storeDir(m, data), Ops: r.Ops}
		if c.Store, err = m.Open(c.config()); err != nil {
			return fmt.Errorf("open %s: %w", m.Name, err)
		}
		open = append(open, c)
		if _, err := c.Store.WaitQuiet(); err != nil {
			return fmt.Errorf("open %s: %w", m.Name, err)
		}
		for _, t := range first {
			r.measure(t.Workload, c, t.Rows[firstRow+len(open)-1])
		}
		if err := r.warm(c); err != nil {
			return fmt.Errorf("warm up %s: %w", m.Name, err)
		}
	}
	if _, err := rest(); err != nil {
		return err
	}
	flushDisk()
	for _, t := range tables {
		for round := range r.Rounds {
			for i := range open {
				at := (round + i) % len(open)
				open[at].Round = round
				r.measure(t.Workload, open[at], t.Rows[firstRow+at])
			}
		}
	}
	return nil
}

// warm checks all that an opened store holds, and reads so much that its caches
// are filled. What the store does because of that, it does before anything is timed.
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
