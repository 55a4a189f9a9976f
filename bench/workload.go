package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// Workload is one thing to measure.
type Workload struct {
	Name    string
	Title   string // %d stands for the bytes of a value, if there is a table for each size
	Figures []Figure
	Kind    Kind
	Stores  []string // the only stores that take part; nil = all
	// Run measures one store once and returns a value for each figure. It is nil
	// if the kind is Cold: then a process of its own runs the named task.
	Run  func(*Cell) ([]float64, error)
	Cold *ColdTask
}

// Figure is one column of a table.
type Figure = result.Column

const (
	Unrated = result.Unrated
	Less    = result.Less
	More    = result.More
)

// Kind says on what a workload runs.
type Kind int

const (
	Fresh  Kind = iota // an empty directory for each store and slice; a table for each value size
	First              // a store with all data, just opened and not read from yet; once in all
	Loaded             // the same, read from and at rest; a table for each value size
	Mixed              // the same, and the workload changes it; these run last
	Cold               // the same, in a process with less memory than data
	Once               // an empty directory; one table only
)

// Cell is one measurement: a workload on a store in a slice.
type Cell struct {
	Maker kv.Maker
	Data  *Dataset
	Dir   string   // an empty directory, or that of Store
	Store kv.Store // only for First, Loaded and Mixed
	Slice int
	Ops   int   // how many calls to time
	Large int64 // bytes that a workload with large values writes
	Waits Waits

	inserted atomic.Int64 // pairs behind those of Data, by Mixed workloads
}

// config opens the cell's store without syncing.
func (c *Cell) config() kv.Config {
	return kv.Config{Dir: c.Dir, ValueSize: c.Data.ValueSize, DataBytes: c.Data.RawBytes()}
}

// Workloads lists all, in the order of the report.
func Workloads() []Workload {
	return slices.Concat(
		loadWorkloads(), overwriteWorkloads(), firstWorkloads(), readWorkloads(), scanWorkloads(), ycsbWorkloads(),
		coldWorkloads(), commitWorkloads(), largeWorkloads(), lifeWorkloads(),
	)
}

// pickWorkloads returns the workloads of a comma-separated list of names. What is
// no name matches all that begin with it; "all" or nothing means every one.
func pickWorkloads(list string) ([]Workload, error) {
	all := Workloads()
	if list == "" || list == "all" {
		return all, nil
	}
	var picked []Workload
	for name := range strings.SplitSeq(list, ",") {
		found, exact := false, slices.ContainsFunc(all, func(w Workload) bool { return w.Name == name })
		for _, w := range all {
			if w.Name == name || strings.HasPrefix(w.Name, name) && !exact {
				found = true
				if !slices.ContainsFunc(picked, func(p Workload) bool { return p.Name == w.Name }) {
					picked = append(picked, w)
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("no workload %q, but %s", name, workloadNames())
		}
	}
	return picked, nil
}

func workloadNames() string {
	var names []string
	for _, w := range Workloads() {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}
