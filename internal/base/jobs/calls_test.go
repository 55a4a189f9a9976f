package jobs

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Calls are made in order, one at a time, and Add waits for none of them. When the last
// has ended there is no goroutine: a bubble of synctest ends only without one.
func TestCallsAreMadeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		var made []int
		leave := make(chan struct{})
		for i := range 10 {
			c.Add(func() {
				<-leave
				made = append(made, i) // a race unless they are made one at a time
			})
		}
		synctest.Wait()
		if len(made) != 0 {
			t.Error("a call was made before it could be")
		}
		close(leave)
		c.Drain(time.Second)
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(made, want) {
			t.Errorf("made %v, want %v", made, want)
		}
		c.Add(func() { made = nil })
		synctest.Wait()
		if made != nil || c.Dropped() != 0 {
			t.Errorf("%v, %d dropped", made, c.Dropped())
		}
	})
}

// Beside a call that hangs a bounded number waits: the newest ones.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		leave := make(chan struct{})
		c.Add(func() { <-leave })
		const more = 100
		var made []int
		for i := range maxCalls + more {
			c.Add(func() { made = append(made, i) })
		}
		if n := c.Dropped(); n != more {
			t.Errorf("%d dropped, want %d", n, more)
		}
		close(leave)
		c.Drain(time.Second)
		if len(made) != maxCalls || made[0] != more || !slices.IsSorted(made) {
			t.Errorf("made %d calls: %v", len(made), made)
		}
	})
}

// Drain gives up on a call that does not end, such as one that calls Drain itself, but
// is patient with one that is slow.
func TestDrainHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		slow, late := 0, false
		for range 5 {
			c.Add(func() { time.Sleep(900 * time.Millisecond); slow++ })
		}
		c.Drain(time.Second)
		if slow != 5 {
			t.Errorf("Drain did not wait for %d slow calls", 5-slow)
		}
		began := time.Now()
		c.Add(func() { c.Drain(time.Second) })
		c.Add(func() { late = true })
		c.Drain(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("gave up after %v", took)
		}
		synctest.Wait()
		if late || c.Dropped() != 1 {
			t.Errorf("what waited behind the call: made %v, %d dropped", late, c.Dropped())
		}
	})
}

// A call that ends its goroutine, as FailNow of a test does, lets the next one be made.
func TestCallsSurviveGoexit(t *testing.T) {
	var c Calls
	var made sync.WaitGroup
	made.Add(1)
	c.Add(runtime.Goexit)
	c.Add(made.Done)
	made.Wait()
	c.Drain(time.Minute)
}
