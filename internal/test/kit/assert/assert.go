// Package assert ends or fails a test whose calls return what they must not.
package assert

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// SameText ends the test if two texts of many lines differ, and says from which line on.
func SameText(t testing.TB, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	i = strings.LastIndexByte(got[:i], '\n') + 1
	t.Fatalf("%s: %d and %d bytes, got %.200q, want %.200q", what, len(got), len(want), got[i:], want[min(i, len(want)):])
}

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorOf returns the error of a call that returns a value, too.
func ErrorOf[T any](_ T, err error) error { return err }

// Must returns v, and panics on an error: for calls whose error would say that the test is wrong.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Error fails the test unless err is target, as errors.Is finds.
func Error(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// Equal fails the test unless got is want.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Functions that goroutines of the store run: readahead of values, background work.
const (
	StackOfReader = "brock/internal/txn/scan."
	StackOfWork   = "jobs.(*Pool).work"
)

// NoGoroutines fails the test if a goroutine runs one of the functions. Other
// goroutines, as those of the runtime, don't count.
func NoGoroutines(t *testing.T, functions ...string) {
	t.Helper()
	runs := func(stacks string) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(stacks, f) })
	}
	var stacks string
	for range 10000 {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		if !runs(stacks) {
			return
		}
		runtime.Gosched() // a goroutine may have done its work and be about to end
	}
	t.Errorf("goroutines are left:\n%s", stacks)
}

// LastError walks to the end, and returns the error of the last item.
func LastError[T any](seq func(func(T, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}
