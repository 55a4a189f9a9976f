package main

import "time"

func loadWorkloads() []Workload {
	return []Workload{{
		Name:  "load",
		Title: "values of %d B, random order, batches of 1000 from 4 goroutines, buffered, until background work is done and the store is closed",
		Figures: []Figure{
			{Name: "k/s", Better: More}, {Name: "seconds"}, {Name: "CPU us/op", Better: Less},
			{Name: "written/raw", Better: Less}, {Name: "files/raw", Better: Less}, {Name: "disk/raw"},
		},
		Kind: Fresh,
		Run:  runLoad,
	}}
}

func runLoad(c *Cell) ([]float64, error) {
	s, err := c.Maker.Open(c.config())
	if err != nil {
		return nil, err
	}
	settle()
	c.Waits.flushDisk()
	before := used()
	err = c.Data.Load(s)
	if err != nil {
		s.Close()
		return nil, err
	}
	quiet, err := c.Waits.quiet(s)
	waiting := time.Since(quiet) // the half second that shows that nothing is left to do
	if err != nil {
		s.Close()
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	took := time.Since(before.at) - waiting
	cpu := used().cpu - before.cpu
	c.Waits.flushDisk()
	written := bytesWritten() - before.written
	apparent, allocated, err := diskSize(c.Dir)
	n, raw := float64(c.Data.Keys), float64(c.Data.RawBytes())
	return []float64{
		n / took.Seconds() / 1e3, took.Seconds(), float64(cpu.Microseconds()) / n,
		float64(written) / raw, float64(apparent) / raw, float64(allocated) / raw,
	}, err
}
