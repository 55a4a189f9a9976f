package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
)

// steadyWriters set pairs at an even rate and note how long each call takes.
type steadyWriters struct {
	db   *brock.DB
	data *Dataset
	seq  atomic.Uint64 // no two values are the same

	mu   sync.Mutex // guards:
	took []time.Duration
}

func newSteadyWriters(db *brock.DB, data *Dataset) *steadyWriters {
	return &steadyWriters{db: db, data: data}
}

// start begins goroutines that together set rate pairs a second. The function that it returns
// ends them and returns their first error.
func (s *steadyWriters) start(goroutines, rate int) (stop func() error) {
	var ended atomic.Bool
	done := make(chan error, 1)
	go func() {
		done <- parallel(goroutines, func(worker int) error {
			return s.write(uint64(worker), time.Second*time.Duration(goroutines)/time.Duration(rate), &ended)
		})
	}()
	return func() error {
		ended.Store(true)
		return <-done
	}
}

// write sets a pair at each step until it is ended.
func (s *steadyWriters) write(worker uint64, step time.Duration, ended *atomic.Bool) error {
	const patience = time.Second
	rng := rand.New(rand.NewPCG(5, worker))
	var key []byte
	value := make([]byte, s.data.ValueSize)
	var took []time.Duration
	for next := time.Now(); !ended.Load(); {
		next = next.Add(step)
		if early := time.Until(next); early > time.Millisecond {
			// To sleep for less would cost more than it saves: a few calls follow each other instead.
			time.Sleep(early)
		} else if early < -patience {
			next = time.Now() // what was missed for so long is not made up for
		}
		i := rng.IntN(2 * s.data.Keys)
		key = s.data.AppendKey(key[:0], i)
		copy(value, s.data.Value(i))
		binary.LittleEndian.PutUint64(value, s.seq.Add(1))
		began := time.Now()
		if err := s.db.Set(key, value); err != nil {
			return err
		}
		if took = append(took, time.Since(began)); len(took) == 64 {
			s.note(took)
			took = took[:0]
		}
	}
	return nil
}

func (s *steadyWriters) note(took []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, took...)
}

// reset returns what was noted since the last reset.
func (s *steadyWriters) reset() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

// sampleMemory looks at the anonymous memory of the process until the function that it
// returns is called, which returns the most that was seen, in bytes.
func sampleMemory() (most func() int64) {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			most = max(most, procNumber("/proc/self/status", "RssAnon:")<<10)
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(memorySample):
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}
