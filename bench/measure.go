package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
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
	read    int64 // bytes read from the disk
	faults  int64 // page faults that read from the disk
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	cpu, _ := processTimes()
	return usage{at: time.Now(), cpu: cpu, mallocs: m.Mallocs, written: bytesWritten(), read: bytesRead(), faults: majorFaults()}
}

// since returns what was used between an earlier moment and u, for each of n
// calls: CPU microseconds, allocations, kB read and major faults.
func (u usage) since(before usage, n int) (cpu, mallocs, kb, faults float64) {
	f := float64(max(n, 1))
	return perCall(u.cpu-before.cpu, n), float64(u.mallocs-before.mallocs) / f,
		float64(u.read-before.read) / 1e3 / f, float64(u.faults-before.faults) / f
}

// perCall returns d over n calls, in microseconds.
func perCall(d time.Duration, n int) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(max(n, 1))
}

// settle collects the garbage of earlier work, so that what is measured next doesn't pay for it.
func settle() { runtime.GC() }

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

// joined returns the times of all goroutines.
func joined(took [][]time.Duration) []time.Duration { return slices.Concat(took...) }

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

// clockCost returns what one reading of the clock takes, in nanoseconds.
func clockCost() float64 {
	const n = 100_000
	start := time.Now()
	for range n {
		_ = time.Since(start)
	}
	return float64(time.Since(start).Nanoseconds()) / n
}

// spin does the same work each time and says how many milliseconds it took: what
// slows it down slows the stores down too.
func spin() float64 {
	const turns = 1 << 21
	start := time.Now()
	x := uint64(1)
	for range turns {
		x = mix(x)
	}
	runtime.KeepAlive(x)
	return float64(time.Since(start).Nanoseconds()) / 1e6
}
