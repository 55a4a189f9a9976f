package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

var errMismatch = errors.New("the store returned something else than was written")

func orMismatch(err error) error {
	if err == nil {
		return errMismatch
	}
	return err
}

// usage is what the process has used so far. The stores share the process, so
// differences count only while all but one are at rest.
type usage struct {
	at      time.Time
	cpu     time.Duration // user and system, all threads
	mallocs uint64
	written int64 // bytes dirtied in files, in whole pages
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	cpu, _ := processTimes()
	return usage{at: time.Now(), cpu: cpu, mallocs: m.Mallocs, written: bytesWritten()}
}

// settle clears away what earlier work left to the collector.
func settle() { runtime.GC() }

const (
	idlePoll  = 50 * time.Millisecond
	idleShare = 10 // a poll in which the process used less than 1/idleShare of a core is idle
	idlePolls = 10
	idleLimit = 10 * time.Minute
)

var errNeverIdle = errors.New("background work did not end within ten minutes")

// waitIdle waits until the process has used next to no CPU and dirtied no file
// for half a second, and returns when that half second began.
func waitIdle() (time.Time, error) {
	start := time.Now()
	since := start
	cpu, _ := processTimes()
	written := bytesWritten()
	for quiet := 0; quiet < idlePolls; {
		time.Sleep(idlePoll)
		now := time.Now()
		if now.Sub(start) > idleLimit {
			return now, errNeverIdle
		}
		c, _ := processTimes()
		w := bytesWritten()
		if c-cpu > idlePoll/idleShare || w != written {
			quiet, since = 0, now
		} else {
			quiet++
		}
		cpu, written = c, w
	}
	return since, nil
}

// latencies times each call of op on its own. The clock is read once a call.
func latencies(n int, op func(i int) error) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	start := time.Now()
	var before time.Duration
	for i := range n {
		if err := op(i); err != nil {
			return nil, err
		}
		now := time.Since(start)
		took[i] = now - before
		before = now
	}
	return took, nil
}

// percentile sorts took and returns its p-th percentile in microseconds.
func percentile(took []time.Duration, p float64) float64 {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	i := min(int(p/100*float64(len(took))), len(took)-1)
	return float64(took[i]) / 1e3
}

// parallel runs fn on n goroutines and returns the first error.
func parallel(n int, fn func(worker int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() { errs[w] = fn(w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// diskSize adds up the files of a directory: their lengths, and what the file
// system keeps for them.
func diskSize(dir string) (apparent, allocated int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store has just removed it
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		apparent += info.Size()
		allocated += blocks(info)
		return nil
	})
	return apparent, allocated, err
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v) / 2; len(v)%2 == 0 {
		return (v[n-1] + v[n]) / 2
	} else {
		return v[n]
	}
}
