package main

import (
	"runtime"
	"strings"
	"testing"
)

// A process with a store that writes ten times its MemoryLimit stays within it
// and 32 MB.
func TestMemoryIsBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("anonymous memory is told by /proc")
	}
	var out strings.Builder
	p := memoryPlan{Limits: []int64{16 << 20}, Times: 10, Sizes: []int{100}, Dir: t.TempDir()}
	if err := p.run(&out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log(&out)
	for _, phase := range []string{"load", "overwrite", "compact", "collect", "scan", "get", "replay", "close"} {
		if !strings.Contains(out.String(), "\n  "+phase+" ") {
			t.Errorf("no figure of phase %s in:\n%s", phase, out.String())
		}
	}
}

func TestPermutationVisitsAll(t *testing.T) {
	for _, n := range []uint64{1, 2, 7, 1000, 0x9e3779b1} {
		p := newPermutation(n)
		if gcd(p.step, n) != 1 {
			t.Errorf("step %d and %d have a common divisor", p.step, n)
		}
		if n > 1000 {
			continue
		}
		seen := map[uint64]bool{}
		for i := range n {
			seen[p.of(i)] = true
		}
		if uint64(len(seen)) != n {
			t.Errorf("%d of %d numbers are visited", len(seen), n)
		}
	}
}
