// Package deadline has the only limits of time that tests know: shares of what go test gives the
// package (its -timeout). A busy machine does fewer cases of a campaign, and waits longer for
// what it waits for; a test fails only for what it has seen.
package deadline

import (
	"runtime"
	"testing"
	"time"
)

// begun is when the tests of this process began.
var begun = time.Now()

// Near reports whether half of the time of go test has passed. The test's log says so then. A
// campaign, which does as many cases as it can, ends: the other half is for the tests that have
// to be whole.
func Near(t *testing.T) bool {
	end, limited := t.Deadline()
	if !limited || time.Since(begun) < end.Sub(begun)/2 {
		return false
	}
	t.Log("ends early: half of the time of go test is over")
	return true
}

// Patience is how long to wait for what has to happen: until nine tenths of the time of go test
// have passed, and for a minute at least.
func Patience(tb testing.TB) time.Duration {
	t, ok := tb.(interface{ Deadline() (time.Time, bool) })
	if !ok { // a benchmark or a fuzz target
		return time.Hour
	}
	end, limited := t.Deadline()
	if !limited {
		return 24 * time.Hour
	}
	return max(time.Minute, time.Until(begun.Add(end.Sub(begun)*9/10)))
}

// Wait waits until done reports true. It asks again and again.
func Wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	for begin, limit := time.Now(), Patience(t); !done(); <-time.After(time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("not yet, after %v: %s\n%s", limit, what, stacks())
		}
	}
}

// Receive waits for a value of the channel, or for its end, and returns it.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	limit := Patience(t)
	select {
	case v = <-from:
	case <-time.After(limit):
		t.Fatalf("not yet, after %v: %s\n%s", limit, what, stacks())
	}
	return v
}

// Watch ends the process, with the stacks of all goroutines, if stop is not called in time. It
// says what hangs, which go test alone does not know.
func Watch(t testing.TB, what string) (stop func()) {
	watch := time.AfterFunc(Patience(t), func() { panic(what + " hangs\n" + stacks()) })
	return func() { watch.Stop() }
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
