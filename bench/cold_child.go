package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
)

// ColdTask is what a process with little memory reads from a store.
type ColdTask struct {
	Do         string // "get", "scan", "seek" or "large"
	Goroutines int
	Zipf       bool // draw keys by Zipf 0.99, else evenly
	Seed       uint64
	LargeBytes int64 // bytes of large values in the store
	Own        int64 // bytes that the process has on its heap beside the store
}

// childCold waits until it is told to begin, reads, and prints its figures.
func childCold(t childTask) error {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("nobody says that the cage is closed: %w", err)
	}
	own := make([][]byte, t.Cold.Own/1024)
	for i := range own {
		own[i] = bytes.Repeat([]byte{1}, 1024)
	}
	s, err := kv.Open(t.Store, t.Config)
	if err != nil {
		return err
	}
	figures, err := t.read(s)
	runtime.KeepAlive(own)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

func parseFigures(text []byte) (figures []float64, err error) {
	err = json.Unmarshal(text, &figures)
	return figures, err
}

func (t *childTask) read(s kv.Store) ([]float64, error) {
	data := NewDataset(t.Keys, t.Config.ValueSize)
	var op func(*rand.Rand) error
	switch t.Cold.Do {
	case "get":
		op = t.gets(s, data)
	case "scan":
		return t.scan(s, data)
	case "seek":
		op = func(rng *rand.Rand) error {
			tally, err := scan(s, data.AppendKey(nil, rng.IntN(data.Keys)), seekPairs, true)
			return orNothing(tally, err)
		}
	case "large":
		large := newLargeData(t.Cold.LargeBytes)
		op = func(rng *rand.Rand) error {
			return getPresent(s, large.AppendKey(nil, rng.IntN(large.pairs/2)*2+1))
		}
	default:
		return nil, fmt.Errorf("no cold task %q", t.Cold.Do)
	}
	return t.timed(op)
}

func orNothing(t kv.Tally, err error) error {
	if err == nil && t.Entries == 0 {
		return errMismatch
	}
	return err
}

func (t *childTask) gets(s kv.Store, data *Dataset) func(*rand.Rand) error {
	var ranks *zipf
	if t.Cold.Zipf {
		ranks = newZipf(data.Keys, zipfTheta)
	}
	place := newPermutation(uint64(data.Keys), 11)
	return func(rng *rand.Rand) error {
		i := 0
		if ranks != nil {
			i = int(place.of(uint64(ranks.draw(rng))))
		} else {
			i = rng.IntN(data.Keys)
		}
		var buf [keySize]byte
		return getPresent(s, data.AppendKey(buf[:0], i))
	}
}

// timed calls op from all goroutines, for a run-up that doesn't count and a slice
// that does.
func (t *childTask) timed(op func(*rand.Rand) error) ([]float64, error) {
	n := t.Cold.Goroutines
	took := make([][]time.Duration, n)
	rngs := make([]*rand.Rand, n)
	for w := range rngs {
		rngs[w] = rand.New(rand.NewPCG(t.Cold.Seed, uint64(w)))
	}
	run := func(long time.Duration, count bool) error {
		end := time.Now().Add(long)
		return parallel(n, func(w int) error {
			for at := time.Now(); at.Before(end); {
				if err := op(rngs[w]); err != nil {
					return err
				}
				now := time.Now()
				if count {
					took[w] = append(took[w], now.Sub(at))
				}
				at = now
			}
			return nil
		})
	}
	if err := run(t.Waits.ColdWarm, false); err != nil {
		return nil, err
	}
	before := used()
	err := run(t.Waits.ColdSlice, true)
	after := used()
	all := joined(took)
	cpu, _, kb, faults := after.since(before, len(all))
	rate := float64(len(all)) / after.at.Sub(before.at).Seconds() / 1e3
	return []float64{rate, percentile(all, 50), percentile(all, 99), kb, cpu, faults}, err
}

// coldScan is how many pairs one scan walks; a fifth before that doesn't count.
const coldScan = 100_000

func (t *childTask) scan(s kv.Store, data *Dataset) ([]float64, error) {
	rng := rand.New(rand.NewPCG(t.Cold.Seed, 1))
	n := min(coldScan, data.Keys/4)
	start := func() []byte { return data.AppendKey(nil, rng.IntN(data.Keys-n)) }
	if _, err := scan(s, start(), n/5, true); err != nil {
		return nil, err
	}
	before := used()
	tally, err := scan(s, start(), n, true)
	after := used()
	if err := orNothing(tally, err); err != nil {
		return nil, err
	}
	cpu, _, kb, faults := after.since(before, tally.Entries)
	return []float64{float64(tally.Entries) / after.at.Sub(before.at).Seconds() / 1e3, kb, cpu, faults}, nil
}
