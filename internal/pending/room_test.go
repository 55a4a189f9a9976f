package pending

import (
	"sync"
	"sync/atomic"
	"testing"
)

// What is taken never exceeds the size, and nobody waits for ever.
func TestRoom(t *testing.T) {
	r := NewRoom(100)
	var all sync.WaitGroup
	var inside atomic.Int64
	for i := range 50 {
		all.Go(func() {
			n := int64(1 + i*7%150)
			r.Enter(n)
			if now := inside.Add(min(n, 100)); now > 100 {
				t.Errorf("%d of 100 bytes are taken", now)
			}
			inside.Add(-min(n, 100))
			r.Leave(n)
		})
	}
	all.Wait()
	if n := r.Taken(); n != 0 {
		t.Errorf("%d bytes are taken by nobody", n)
	}
}

// A small write doesn't overtake a large one that waits.
func TestRoomIsFirstComeFirstServed(t *testing.T) {
	r := NewRoom(100)
	r.Enter(60)
	order := make(chan string, 2)
	var all sync.WaitGroup
	enter := func(n int64, name string) {
		waiting := len(r.waiting)
		all.Go(func() {
			r.Enter(n)
			order <- name
			r.Leave(n)
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
	r.Leave(60)
	all.Wait()
	if first := <-order; first != "large" {
		t.Errorf("%s came first", first)
	}
}
