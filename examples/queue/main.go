// Command queue fills a durable queue and drains it again:
//
//	go run . -gb 1
//
// It prints each second how many jobs were put, claimed and completed, how much memory the process
// takes, and how large the store is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
)

func main() {
	var (
		dir       = flag.String("dir", "", "directory of the store (default: a new one, which is removed at the end)")
		gb        = flag.Float64("gb", 0.25, "GB of jobs to put")
		size      = flag.Int("size", 4000, "bytes of a job")
		producers = flag.Int("producers", 4, "goroutines that put jobs, 100 a commit")
		consumers = flag.Int("consumers", 32, "goroutines that claim and complete them")
		memory    = flag.Int64("memory", 256, "MB of memory for the store, and as many for the program")
	)
	flag.Parse()
	debug.SetMemoryLimit(*memory << 20)
	if *dir == "" {
		var err error
		if *dir, err = os.MkdirTemp("", "queue-"); err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(*dir)
	}
	db, err := brock.Open(brock.Options{Dir: *dir, MemoryLimit: *memory << 20})
	if err != nil {
		log.Fatal(err)
	}
	q, err := NewQueue(db, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	r := &rates{db: db}
	stop := r.print()
	jobs := int64(*gb * 1e9 / float64(*size))
	err = errors.Join(fill(q, r, jobs, *size, *producers), drain(q, r, jobs, *consumers))
	stop()
	q.Close()
	if err := errors.Join(err, db.Close()); err != nil {
		log.Fatal(err)
	}
}

// perCommit is how many jobs a producer puts by one commit.
const perCommit = 100

// fill puts jobs.
func fill(q *Queue, r *rates, jobs int64, size, producers int) error {
	left := jobs
	return together(producers, func() error {
		batch := make([][]byte, 0, perCommit)
		for atomic.AddInt64(&left, -perCommit) > -perCommit {
			batch = batch[:0]
			for range perCommit {
				payload := make([]byte, size)
				copy(payload, time.Now().String())
				batch = append(batch, payload)
			}
			if err := q.PutAll(batch, 0); err != nil {
				return err
			}
			r.put.Add(perCommit)
		}
		return nil
	})
}

// drain claims and completes jobs until there is none for a second.
func drain(q *Queue, r *rates, jobs int64, consumers int) error {
	return together(consumers, func() error {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			job, err := q.Claim(ctx)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			} else if err != nil {
				return err
			}
			r.claimed.Add(1)
			if err := q.Complete(job); err != nil {
				return err
			}
			r.completed.Add(1)
		}
	})
}

// together runs fn on n goroutines, and returns their errors.
func together(n int, fn func() error) error {
	failed := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { failed[i] = fn() })
	}
	wait.Wait()
	return errors.Join(failed...)
}

// rates counts what is done.
type rates struct {
	db                      *brock.DB
	put, claimed, completed atomic.Int64
}

// print prints a line each second until the function that it returns is called.
func (r *rates) print() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	fmt.Printf("%10s %10s %12s %10s %10s\n", "put/s", "claimed/s", "completed/s", "memory MB", "store MB")
	go func() {
		defer close(ended)
		for {
			put, claimed, completed, begin := r.put.Load(), r.claimed.Load(), r.completed.Load(), time.Now()
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			s := time.Since(begin).Seconds()
			m := r.db.Metrics()
			fmt.Printf("%10.0f %10.0f %12.0f %10d %10d\n", float64(r.put.Load()-put)/s, float64(r.claimed.Load()-claimed)/s,
				float64(r.completed.Load()-completed)/s, residentMB(), (m.Tree.RunBytes+m.Tree.SegmentBytes)>>20)
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// residentMB is the memory of the process, without pages of mapped files, in MB; 0 where the system
// doesn't tell.
func residentMB() (mb int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "RssAnon:")
	var kb int64
	if _, err := fmt.Sscan(line, &kb); err != nil {
		return 0
	}
	return kb >> 10
}
