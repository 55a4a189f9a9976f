package main

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	overwriters    = 16
	overwritesAnOp = 5 // pairs written for each of -ops, at most as many as there are
	overwriteSeed  = 7
)

func overwriteWorkloads() []Workload {
	return []Workload{{
		Name:  "overwrite",
		Title: "values of %d B, new values for keys drawn evenly, each in a commit of its own from 16 goroutines, buffered, until background work is done",
		Figures: []Figure{
			{Name: "k/s", Better: More}, {Name: "p99 us"}, {Name: "CPU us/op", Better: Less},
			{Name: "written/user", Better: Less}, {Name: "disk/live", Better: Less},
		},
		Kind: Fresh,
		Run:  runOverwrite,
	}}
}

func runOverwrite(c *Cell) (figures []float64, err error) {
	config := c.config()
	config.Overwrites, config.Writers = true, overwriters
	s, err := c.Maker.Open(config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := c.Data.Load(s); err != nil {
		return nil, err
	}
	if _, err := c.Waits.quiet(s); err != nil {
		return nil, err
	}
	c.Waits.flushDisk()
	settle()
	n := max(overwriters, min(c.Data.Keys, overwritesAnOp*c.Ops)) / overwriters * overwriters
	took := make([][]time.Duration, overwriters)
	before := used()
	err = parallel(overwriters, func(w int) error {
		rng := rand.New(rand.NewPCG(overwriteSeed, uint64(w)))
		var key []byte
		var err error
		took[w], err = latencies(n/overwriters, func(int) error {
			key = c.Data.AppendKey(key[:0], rng.IntN(c.Data.Keys))
			return s.Set(key, c.Data.Value(rng.Int()))
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	quiet, err := c.Waits.quiet(s)
	if err != nil {
		return nil, err
	}
	after := used()
	c.Waits.flushDisk()
	_, disk, err := diskSize(c.Dir)
	cpu, _, _, _ := after.since(before, n)
	user := float64(n) * float64(keySize+c.Data.ValueSize)
	return []float64{
		float64(n) / quiet.Sub(before.at).Seconds() / 1e3, percentile(joined(took), 99), cpu,
		float64(bytesWritten()-before.written) / user, float64(disk) / float64(c.Data.RawBytes()),
	}, err
}
