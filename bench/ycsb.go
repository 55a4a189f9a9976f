package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	ycsbClients  = 16
	ycsbScanMost = 100 // pairs of a scan: from 1 on, drawn evenly
)

// ycsbOp is what a client does once.
type ycsbOp int

const (
	ycsbRead ycsbOp = iota
	ycsbUpdate
	ycsbInsert
	ycsbScan
	ycsbModify // read, and write a new value of the same key
)

// ycsbMix is a core workload of YCSB (Cooper et al., "Benchmarking Cloud Serving
// Systems with YCSB", SoCC 2010, table 2).
type ycsbMix struct {
	letter string
	title  string
	mostly ycsbOp
	else1  ycsbOp // the other operation,
	share  int    // percent of the operations that do this
	latest bool   // keys are drawn from those that were inserted last, most often the newest
}

var ycsbMixes = []ycsbMix{
	{letter: "A", title: "50 % reads, 50 % updates", mostly: ycsbRead, else1: ycsbUpdate, share: 50},
	{letter: "B", title: "95 % reads, 5 % updates", mostly: ycsbRead, else1: ycsbUpdate, share: 5},
	{letter: "C", title: "reads only", mostly: ycsbRead},
	{letter: "F", title: "50 % reads, 50 % reads followed by a write of the same key", mostly: ycsbRead, else1: ycsbModify, share: 50},
	{letter: "D", title: "95 % reads of what is new, 5 % inserts", mostly: ycsbRead, else1: ycsbInsert, share: 5, latest: true},
	{letter: "E", title: "95 % scans of 1 to 100 pairs with values, 5 % inserts", mostly: ycsbScan, else1: ycsbInsert, share: 5},
}

// ycsbWorkloads are in the order that YCSB advises: those that insert come last.
func ycsbWorkloads() []Workload {
	var list []Workload
	for _, m := range ycsbMixes {
		list = append(list, Workload{
			Name:  "ycsb" + m.letter,
			Title: "values of %d B, YCSB " + m.letter + ": " + strings.ReplaceAll(m.title, "%", "%%") + "; Zipf 0.99, 16 goroutines, buffered",
			Figures: []Figure{
				{Name: "k ops/s", Better: More}, {Name: "p50 us", Better: Less}, {Name: "p99 us"},
				{Name: "write p99 us"}, {Name: "CPU us/op", Better: Less},
			},
			Kind: Mixed,
			Run:  func(c *Cell) ([]float64, error) { return m.run(c) },
		})
	}
	return list
}

func (m *ycsbMix) run(c *Cell) ([]float64, error) {
	n := max(ycsbClients, c.Ops) / ycsbClients
	if m.mostly == ycsbScan {
		n = max(1, n/10)
	}
	ranks := newZipf(c.Data.Keys, zipfTheta)
	place := newPermutation(uint64(c.Data.Keys), 11) // so that hot keys are no neighbours
	clients := make([]*ycsbClient, ycsbClients)
	for w := range clients {
		clients[w] = &ycsbClient{Cell: c, mix: m, ranks: ranks, place: place, rng: rand.New(rand.NewPCG(uint64(c.Slice)<<8|uint64(w), 12))}
	}
	settle()
	before := used()
	err := parallel(ycsbClients, func(w int) error { return clients[w].run(n) })
	after := used()
	if err != nil {
		return nil, err
	}
	var reads, writes [][]time.Duration
	for _, cl := range clients {
		reads, writes = append(reads, cl.reads), append(writes, cl.writes)
	}
	total := n * ycsbClients
	cpu, _, _, _ := after.since(before, total)
	read := joined(reads)
	return []float64{
		float64(total) / after.at.Sub(before.at).Seconds() / 1e3, percentile(read, 50), percentile(read, 99),
		percentile(joined(writes), 99), cpu,
	}, nil
}

// ycsbClient is one goroutine.
type ycsbClient struct {
	*Cell
	mix   *ycsbMix
	ranks *zipf
	place permutation
	rng   *rand.Rand
	key   []byte

	reads, writes []time.Duration // a read and write of one key counts as a write
}

func (c *ycsbClient) run(n int) error {
	for range n {
		op := c.mix.mostly
		if c.rng.IntN(100) < c.mix.share {
			op = c.mix.else1
		}
		start := time.Now()
		if err := c.do(op); err != nil {
			return err
		}
		if took := time.Since(start); op == ycsbRead || op == ycsbScan {
			c.reads = append(c.reads, took)
		} else {
			c.writes = append(c.writes, took)
		}
	}
	return nil
}

func (c *ycsbClient) do(op ycsbOp) error {
	i := c.draw()
	if op == ycsbInsert {
		i = c.Data.Keys + int(c.inserted.Add(1)) - 1
	}
	c.key = c.Data.AppendKey(c.key[:0], i)
	if op == ycsbScan {
		_, err := scan(c.Store, c.key, 1+c.rng.IntN(ycsbScanMost), true)
		return err
	}
	if op == ycsbRead || op == ycsbModify {
		_, found, err := c.Store.Get(c.key)
		if err == nil && !found && i < c.Data.Keys { // an insert may be under way
			err = fmt.Errorf("%q is missing: %w", c.key, errMismatch)
		}
		if err != nil || op == ycsbRead {
			return err
		}
	}
	return c.Store.Set(c.key, c.Data.Value(c.rng.Int()))
}

// draw returns the number of a key.
func (c *ycsbClient) draw() int {
	rank := c.ranks.draw(c.rng)
	if c.mix.latest {
		return c.Data.Keys + int(c.inserted.Load()) - 1 - rank
	}
	return int(c.place.of(uint64(rank)))
}
