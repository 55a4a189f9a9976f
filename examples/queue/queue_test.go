package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

func openQueue(t *testing.T, dir string, lease time.Duration) (*Queue, *brock.DB) {
	t.Helper()
	db, err := brock.Open(brock.DefaultOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	q, err := NewQueue(db, lease)
	if err != nil {
		t.Fatal(err)
	}
	return q, db
}

func closeQueue(t *testing.T, q *Queue, db *brock.DB) {
	t.Helper()
	q.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, q *Queue) *Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	job, err := q.Claim(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestOrderAndDelay(t *testing.T) {
	q, db := openQueue(t, t.TempDir(), time.Minute)
	defer closeQueue(t, q, db)
	if err := q.Put([]byte("late"), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := q.Put([]byte{byte(i)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		job := claim(t, q)
		if job.Payload[0] != byte(i) || job.Claims != 1 {
			t.Fatalf("job %d: %q, claimed %d times", i, job.Payload, job.Claims)
		}
		if err := q.Complete(job); err != nil {
			t.Fatal(err)
		}
		if err := q.Complete(job); err != ErrLeaseLost {
			t.Fatalf("a second Complete: %v", err)
		}
	}
	begin := time.Now()
	if job := claim(t, q); string(job.Payload) != "late" {
		t.Fatalf("%q", job.Payload)
	}
	if time.Since(begin) > 15*time.Second {
		t.Fatal("nobody woke for the delayed job")
	}
}

func TestLeaseEnds(t *testing.T) {
	q, db := openQueue(t, t.TempDir(), 200*time.Millisecond)
	defer closeQueue(t, q, db)
	if err := q.Put([]byte("job"), 0); err != nil {
		t.Fatal(err)
	}
	first := claim(t, q)
	second := claim(t, q) // waits until the lease has ended
	if second.ID != first.ID || second.Claims != 2 {
		t.Fatalf("%+v after %+v", second, first)
	}
	if err := q.Complete(first); err != ErrLeaseLost {
		t.Fatalf("Complete behind the end of the lease: %v", err)
	}
	if err := q.Return(second, 0); err != nil && err != ErrLeaseLost {
		t.Fatal(err)
	}
	if third := claim(t, q); third.Claims < 3 {
		t.Fatalf("%+v", third)
	}
}

// Producers and consumers run together: each job is claimed once.
func TestTogether(t *testing.T) {
	q, db := openQueue(t, t.TempDir(), time.Minute)
	defer closeQueue(t, q, db)
	const jobs, producers, consumers = 2000, 4, 16
	var wait sync.WaitGroup
	for p := range producers {
		wait.Go(func() {
			for i := p; i < jobs; i += producers {
				delay := time.Duration(rand.IntN(20)) * time.Millisecond
				if err := q.Put(binary.BigEndian.AppendUint32(nil, uint32(i)), delay); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var mu sync.Mutex
	var got []uint32
	for range consumers {
		wait.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				job, err := q.Claim(ctx)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					return
				}
				if err == nil {
					err = q.Complete(job)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, binary.BigEndian.Uint32(job.Payload))
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	slices.Sort(got)
	if len(got) != jobs || len(slices.Compact(got)) != jobs {
		t.Fatalf("%d claims of %d jobs", len(got), jobs)
	}
}

// A process that puts, claims and completes is killed again and again. What it has said it did is so.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	put, completed := make(map[string]bool), make(map[string]bool)
	for range 3 {
		c := exec.Command(os.Args[0], "-test.run", "^TestChild$")
		c.Env = append(os.Environ(), "QUEUE_CHILD="+dir)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 200 + rand.IntN(400); n > 0 && lines.Scan(); n-- {
			note(lines.Text(), put, completed)
		}
		_ = c.Process.Kill()
		for lines.Scan() { // what it had said before it was killed
			note(lines.Text(), put, completed)
		}
		_ = c.Wait()
	}
	if len(put) == 0 || len(completed) == 0 {
		t.Fatalf("%d put, %d completed", len(put), len(completed))
	}
	q, db := openQueue(t, dir, time.Minute)
	defer closeQueue(t, q, db)
	there := make(map[string]bool)
	err := q.payloads.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			payload, err := item.Value()
			if err != nil {
				return err
			}
			there[string(payload)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for name := range put {
		if completed[name] && there[name] {
			t.Errorf("%s is back", name)
		}
		if !completed[name] && !there[name] {
			missing++ // a Complete of which the process could not tell any more
		}
	}
	if missing > 3 { // one each time that it was killed
		t.Errorf("%d jobs are lost", missing)
	}
}

func note(line string, put, completed map[string]bool) {
	var what, name string
	if n, _ := fmt.Sscan(line, &what, &name); n != 2 {
		return
	}
	switch what {
	case "put":
		put[name] = true
	case "completed":
		completed[name] = true
	}
}

// TestChild is the process that TestKilled kills.
func TestChild(t *testing.T) {
	dir := os.Getenv("QUEUE_CHILD")
	if dir == "" {
		t.Skip("for TestKilled")
	}
	q, _ := openQueue(t, dir, 50*time.Millisecond)
	for i := 0; ; i++ {
		name := fmt.Sprintf("%d-%d", os.Getpid(), i)
		if err := q.Put([]byte(name), 0); err != nil {
			t.Fatal(err)
		}
		fmt.Println("put", name)
		if i%2 == 0 {
			continue
		}
		job := claim(t, q)
		switch err := q.Complete(job); err {
		case nil:
			fmt.Println("completed", string(job.Payload))
		case ErrLeaseLost:
		default:
			t.Fatal(err)
		}
	}
}

func TestFillAndDrain(t *testing.T) {
	q, db := openQueue(t, t.TempDir(), time.Minute)
	defer closeQueue(t, q, db)
	r := &rates{db: db}
	err := errors.Join(fill(q, r, 500, 1000, 2), drain(q, r, 500, 8))
	if err != nil || r.put.Load() < 500 || r.completed.Load() != r.put.Load() {
		t.Fatal(err, r.put.Load(), r.completed.Load())
	}
	for _, ks := range []*brock.Keyspace{q.payloads, q.ready, q.leased} {
		err := ks.View(func(txn *brock.Txn) error {
			for item, err := range txn.All() {
				return fmt.Errorf("%s holds %x: %v", ks.Name(), item.Key(), err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
