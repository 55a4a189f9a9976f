package pending

import (
	"sync"
	"sync/atomic"
	"testing"
)

// What is taken never exceeds the size, and nobody waits for ever.
func TestRoom(t *testing.T) {
	r := NewMemoryLimiter(100)
	var all sync.WaitGroup
	var inside atomic.Int64
	for i := range 50 {
		all.Go(func() {
			n := int64(1 + i*7%150)
			r.TakeBytes(n)
			if now := inside.Add(min(n, 100)); now > 100 {
				t.Errorf("%d of 100 bytes are taken", now)
			}
			inside.Add(-min(n, 100))
			r.ReturnBytes(n)
		})
	}
	all.Wait()
	if n := r.UsedBytes(); n != 0 {
		t.Errorf("%d bytes are taken by nobody", n)
	}
}

// A small write doesn't overtake a large one that waits.
func TestRoomIsFirstComeFirstServed(t *testing.T) {
	r := NewMemoryLimiter(100)
	r.TakeBytes(60)
	order := make(chan string, 2)
	var all sync.WaitGroup
	enter := func(n int64, name string) {
		waiting := len(r.waiting)
		all.Go(func() {
			r.TakeBytes(n)
			order <- name
			r.ReturnBytes(n)
		})
		for { // until it waits
			r.mu.Lock()
			now := len(r.waiting)
			r.mu.Unlock()
			if now > waiting {
				return
			}
		}
	}
	enter(100, "large")
	enter(10, "small")
	r.ReturnBytes(60)
	all.Wait()
	if first := <-order; first != "large" {
		t.Errorf("%s came first", first)
	}
}

// One large write's memory is kept for the next, unless it is very much.
func TestRoomKeepsOneSpare(t *testing.T) {
	r := NewMemoryLimiter(4 << 20)
	a := r.LendBuffer(300 << 10)
	b := r.LendBuffer(1 << 20)
	if cap(a) != 512<<10 || cap(b) != 1<<20 || r.UsedBytes() != 0 {
		t.Errorf("got %d and %d bytes, %d are kept", cap(a), cap(b), r.UsedBytes())
	}
	r.ReturnBuffer(b)
	r.ReturnBuffer(a)
	r.ReturnBuffer(make([]byte, 0, 3<<20))
	if n := r.UsedBytes(); n != 1<<20 {
		t.Errorf("%d bytes are kept, want 1 MiB", n)
	}
	if c := r.LendBuffer(900 << 10); &c[:1][0] != &b[:1][0] || r.UsedBytes() != 0 {
		t.Errorf("other memory was lent, %d bytes are kept", r.UsedBytes())
	}
}
