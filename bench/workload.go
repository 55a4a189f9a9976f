package main

import (
	"fmt"
	"slices"
	"strings"
)

// Workload is one thing to measure.
type Workload struct {
	Name    string
	Title   string // %d stands for the bytes of a value, if there is a table for each size
	Figures []Figure
	Kind    Kind
	// Run measures one store once and returns a value for each figure.
	Run func(*Cell) ([]float64, error)
}

// Kind says on what a workload runs.
type Kind int

const (
	Fresh  Kind = iota // an empty directory for each store and round; a table for each value size
	First              // the same, but just opened and not read from yet; once in all
	Loaded             // an open store with all data, read from and at rest; a table for each value size
	Once               // an empty directory; one table only
)

// Figure is one column of a table.
type Figure struct {
	Name   string
	Better Better
}

// Better says how a figure is compared with that of the first store.
type Better int

const (
	Unrated Better = iota // not compared
	Less                  // ratio = theirs / first
	More                  // ratio = first / theirs
)

// Cell is one measurement: a workload on a store in a round.
type Cell struct {
	Maker Maker
	Data  *Dataset
	Dir   string // an empty directory, or that of Store
	Store Store  // only for First and Loaded
	Round int
	Ops   int  // how many calls to time
	Keep  bool // Load leaves its store in Dir
}

// config opens the cell's store without syncing.
func (c *Cell) config() Config {
	return Config{Dir: c.Dir, ValueSize: c.Data.ValueSize, DataBytes: c.Data.RawBytes()}
}

// Workloads lists all, in the order of the report.
func Workloads() []Workload {
	return slices.Concat(loadWorkloads(), firstWorkloads(), readWorkloads(), scanWorkloads(), commitWorkloads(), lifeWorkloads())
}

// pickWorkloads returns the workloads of a comma-separated list of names; a
// name matches all that begin with it, and "all" or nothing means every one.
func pickWorkloads(list string) ([]Workload, error) {
	all := Workloads()
	if list == "" || list == "all" {
		return all, nil
	}
	var picked []Workload
	for name := range strings.SplitSeq(list, ",") {
		found := false
		for _, w := range all {
			if strings.HasPrefix(w.Name, name) {
				found = true
				if !slices.ContainsFunc(picked, func(p Workload) bool { return p.Name == w.Name }) {
					picked = append(picked, w)
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("no workload %q", name)
		}
	}
	return picked, nil
}

// loadKeys is how many pairs are loaded unless -keys says otherwise.
func loadKeys(valueSize int) int {
	switch {
	case valueSize <= 16:
		return 2_000_000
	case valueSize <= 1024:
		return 1_000_000
	default:
		return max(1, 1<<30/valueSize)
	}
}

// readKeys is how many pairs are read from unless -keys says otherwise.
func readKeys(valueSize int) int {
	if valueSize <= 128 {
		return 2_000_000
	}
	return loadKeys(valueSize)
}
