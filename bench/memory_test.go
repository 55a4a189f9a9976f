package main

import (
	"runtime"
	"strings"
	"testing"
)

// A process with a store that writes ten times its MemoryLimit (five, if tests
// shall be short) stays within it
// and 32 MB.
func TestMemoryIsBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("anonymous memory is told by /proc")
	}
	var out strings.Builder
	times := 10
	if testing.Short() {
		times = 5
	}
	p := memoryPlan{Limits: []int64{16 << 20}, Times: times, Sizes: []int{100}, Dir: t.TempDir()}
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
