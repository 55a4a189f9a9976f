package storetest

import (
	"testing"

	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
)

// AtEachStep calls test with each step-th number, of which the first is drawn, until it returns
// false: in short tests with a third of these, with -every with all numbers from 1 on.
func AtEachStep(t *testing.T, step int, test func(t *testing.T, at int) bool) {
	switch {
	case *Every:
		step = 1
	case testing.Short():
		step *= 3
	}
	at := 1 + draw.Rand(t).IntN(step)
	process.LogWhenFailed(t, "step", &at)
	for ; test(t, at); at += step {
	}
}
