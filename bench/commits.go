package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
)

const (
	commitValue   = 128
	commitPreload = 20_000
)

func commitWorkloads() []Workload {
	var list []Workload
	for _, writers := range []int{1, 16, 64} {
		list = append(list, Workload{
			Name:    fmt.Sprintf("commit%d", writers),
			Title:   fmt.Sprintf("commits of one pair with %d B, durable on return, %d at once", commitValue, writers),
			Figures: []Figure{{Name: "commits/s", Better: More}, {Name: "p50 us", Better: Less}, {Name: "p99 us"}, {Name: "CPU us/op"}},
			Kind:    Once,
			Run:     func(c *Cell) ([]float64, error) { return runCommits(c, writers) },
		})
	}
	return list
}

func runCommits(c *Cell, writers int) (figures []float64, err error) {
	data := NewDataset(min(commitPreload, 10*c.Ops), commitValue)
	s, err := c.Maker.Open(kv.Config{
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
	if _, err := c.Waits.quiet(s); err != nil {
		return nil, err
	}
	c.Waits.flushDisk()
	return commitFor(s, data, writers, uint64(c.Slice), c.Waits)
}

// commitFor lets the writers commit for a second after a short run-up.
func commitFor(s kv.Store, data *Dataset, writers int, seed uint64, waits Waits) ([]float64, error) {
	keys := data.Sample(1<<16, seed, true)
	var phase, next atomic.Uint64 // phase: 0 run-up, 1 measuring, 2 over
	took := make([][]time.Duration, writers)
	var before, after usage
	clock := make(chan struct{})
	settle()
	go func() {
		defer close(clock)
		time.Sleep(waits.Warm)
		before = used()
		phase.Store(1)
		time.Sleep(waits.Slice)
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
			if err := s.Set(keys[i%uint64(len(keys))], data.Value(int(i))); err != nil {
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
	all := joined(took)
	n := max(1, len(all))
	return []float64{
		float64(len(all)) / after.at.Sub(before.at).Seconds(),
		percentile(all, 50), percentile(all, 99), perCall(after.cpu-before.cpu, n),
	}, nil
}
