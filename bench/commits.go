package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	commitValue   = 128
	commitPreload = 20_000
	commitWarm    = 200 * time.Millisecond
	commitTime    = time.Second
)

func commitWorkloads() []Workload {
	var list []Workload
	for _, writers := range []int{1, 16, 64} {
		list = append(list, Workload{
			Name:    fmt.Sprintf("commit%d", writers),
			Title:   fmt.Sprintf("commits of one pair with %d B, durable on return, %d at once", commitValue, writers),
			Figures: []Figure{{"commits/s", More}, {"p50 us", Less}, {"p99 us", Unrated}, {"CPU us/op", Unrated}},
			Kind:    Once,
			Run:     func(c *Cell) ([]float64, error) { return runCommits(c, writers) },
		})
	}
	return list
}

func runCommits(c *Cell, writers int) (figures []float64, err error) {
	data := NewDataset(commitPreload, commitValue)
	s, err := c.Maker.Open(Config{
		Dir: c.Dir, Sync: true, ValueSize: commitValue, DataBytes: data.RawBytes(), Writers: writers,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := s.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := data.Load(s); err != nil {
		return nil, err
	}
	if _, err := s.WaitQuiet(); err != nil {
		return nil, err
	}
	flushDisk()
	return commitFor(s, data, writers, uint64(c.Round))
}

// commitFor lets the writers commit for a second after a short run-up.
func commitFor(s Store, data *Dataset, writers int, seed uint64) ([]float64, error) {
	keys := data.Sample(1<<16, seed, true)
	var phase, next atomic.Uint64 // phase: 0 run-up, 1 measuring, 2 over
	took := make([][]time.Duration, writers)
	var before, after usage
	clock := make(chan struct{})
	settle()
	go func() {
		defer close(clock)
		time.Sleep(commitWarm)
		before = used()
		phase.Store(1)
		time.Sleep(commitTime)
		phase.Store(2)
		after = used()
	}()
	err := parallel(writers, func(w int) error {
		for {
			i := next.Add(1)
			began, start := phase.Load(), time.Now()
			if began == 2 {
				return nil
			}
			if err := s.CommitOne(keys[i%uint64(len(keys))], data.Value(int(i))); err != nil {
				return err
			}
			if began == 1 && phase.Load() == 1 {
				took[w] = append(took[w], time.Since(start))
			}
		}
	})
	<-clock
	if err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	n := max(1, len(all))
	return []float64{
		float64(len(all)) / after.at.Sub(before.at).Seconds(),
		percentile(all, 50), percentile(all, 99), perCall(after.cpu-before.cpu, n),
	}, nil
}
