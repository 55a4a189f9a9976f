// Package result holds what a run has measured, as data. Tables, charts, the
// report and the comparison with another run are made from it alone.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Format is the version of the JSON. A reader refuses another one.
const Format = 1

// Run is all that one run has measured.
type Run struct {
	Format   int      `json:"format"`
	Time     string   `json:"time"` // RFC 3339, when the run began
	Command  []string `json:"command"`
	Machine  Machine  `json:"machine"`
	Settings []Pair   `json:"settings"` // what the flags came to
	Stores   []Store  `json:"stores"`
	Tables   []*Table `json:"tables"`
	LeftOut  []string `json:"left_out,omitempty"` // what could not be measured here, and why
}

// Machine says where a run was made.
type Machine struct {
	Go         string  `json:"go"`
	Platform   string  `json:"platform"`
	Kernel     string  `json:"kernel,omitempty"`
	CPU        string  `json:"cpu,omitempty"`
	CPUs       int     `json:"cpus"`
	GOMAXPROCS int     `json:"gomaxprocs"`
	Memory     int64   `json:"memory"` // bytes available when the run began
	FileSystem string  `json:"file_system,omitempty"`
	Cgo        string  `json:"cgo,omitempty"`
	ClockNs    float64 `json:"clock_ns"` // of reading the clock, in every latency
}

// Pair is a setting and its value.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Store is one that took part.
type Store struct {
	Name    string `json:"name"`
	Module  string `json:"module,omitempty"`
	Version string `json:"version,omitempty"`
	Setup   string `json:"setup,omitempty"`
}

// Table is a workload, often with one size of values: a Row for each store.
type Table struct {
	Workload  string   `json:"workload"`
	Title     string   `json:"title"`
	ValueSize int      `json:"value_size,omitempty"`
	Keys      int      `json:"keys,omitempty"`
	Columns   []Column `json:"columns"`
	Rows      []*Row   `json:"rows"`
	Noise     Noise    `json:"noise"`
}

// Better says which way a figure is better, and so how stores are compared.
type Better string

const (
	Unrated Better = ""
	Less    Better = "less"
	More    Better = "more"
)

// Column is one figure of a table.
type Column struct {
	Name   string `json:"name"`
	Better Better `json:"better,omitempty"`
}

// Row is what a store did.
type Row struct {
	Store     string      `json:"store"`
	Slices    [][]float64 `json:"slices"` // each slice's values, in the order of the columns
	Reference bool        `json:"reference,omitempty"`
	Error     string      `json:"error,omitempty"`
}

// Noise is what else the machine did while a table was measured.
type Noise struct {
	Spin  []float64 `json:"spin_ms,omitempty"`   // a fixed loop of CPU work before each slice
	Other []float64 `json:"other_cpu,omitempty"` // share of all CPUs that others used during each slice
}

// Spread is the median, the least and the greatest of some slices.
type Spread struct{ Median, Min, Max float64 }

// Spread returns that of column i; zero if there is no slice.
func (r *Row) Spread(i int) Spread {
	var v []float64
	for _, s := range r.Slices {
		if i < len(s) {
			v = append(v, s[i])
		}
	}
	return SpreadOf(v)
}

// SpreadOf returns the spread of v, which may be empty.
func SpreadOf(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	return Spread{Median: Median(v), Min: slices.Min(v), Max: slices.Max(v)}
}

// Median returns the median of v and leaves v as it is; 0 of nothing.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v) / 2
	if len(v)%2 == 0 {
		return (v[n-1] + v[n]) / 2
	}
	return v[n]
}

// Ratio is the first figure over the other one, or the reverse if less is better: above
// 1 it is ahead. It returns 0 if there is nothing to compare.
func (c Column) Ratio(first, other float64) float64 {
	if c.Better == More {
		first, other = other, first
	}
	if c.Better == Unrated || first == 0 || other == 0 {
		return 0
	}
	return other / first
}

// Row returns the row of a store, nil if there is none.
func (t *Table) Row(store string) *Row {
	for _, r := range t.Rows {
		if r.Store == store {
			return r
		}
	}
	return nil
}

// Find returns the table of a workload and size of values, nil if there is none.
func (r *Run) Find(workload string, valueSize int) *Table {
	for _, t := range r.Tables {
		if t.Workload == workload && t.ValueSize == valueSize {
			return t
		}
	}
	return nil
}

// Failure returns an error that names a row which failed, if there is one.
func (r *Run) Failure() error {
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if row.Error != "" {
				return fmt.Errorf("%s on %s: %s", t.Workload, row.Store, row.Error)
			}
		}
	}
	return nil
}

// Save writes the run to a file.
func (r *Run) Save(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Load reads what Save wrote.
func Load(file string) (*Run, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Run)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("%s: format %d, this program reads %d", file, r.Format, Format)
	}
	return r, nil
}
