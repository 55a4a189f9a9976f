package jobs

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestBellMissesNothing: waiters that look between Wait and the wait itself see each step of a
// counter, whatever the order of steps and waits.
func TestBellMissesNothing(t *testing.T) {
	const last = 20_000
	var b Bell
	var count atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				rung := b.Wait()
				if count.Load() == last {
					return
				}
				<-rung // a missed one would block here for ever at the last step
			}
		})
	}
	for range last {
		count.Add(1)
		b.Ring()
	}
	all.Wait()
}

// TestBellWithoutWaiters: Ring without waiters allocates nothing and wakes nobody who comes later.
func TestBellWithoutWaiters(t *testing.T) {
	var b Bell
	if n := testing.AllocsPerRun(100, b.Ring); n != 0 {
		t.Errorf("%v allocations", n)
	}
	select {
	case <-b.Wait():
		t.Error("rung before")
	default:
	}
}
