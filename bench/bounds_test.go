package main

import (
	"io"
	"strings"
	"testing"
)

// TestBoundsCommand runs the command at a small scale: it has a line for each
// figure, whatever a busy machine makes of them.
func TestBoundsCommand(t *testing.T) {
	only, want := "keyspaces,manykeys", []string{"Clear and Drop", "a transaction of 20000 pairs"}
	if !testing.Short() {
		only, want = only+",ranges,manybytes,deletes", append(want, "DeleteRange", "a transaction of 20 pairs",
			"pairs of 16 B deleted in no order, at once", "pairs of 1000 B deleted in order, at rest")
	}
	var out strings.Builder
	err := runBounds([]string{"-smoke", "-keys", "2000", "-gb", "0.02", "-only", only, "-dir", t.TempDir()}, &out, io.Discard)
	if err != nil && !strings.HasPrefix(err.Error(), "above the bound") {
		t.Fatal(err)
	}
	for _, line := range want {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in:\n%s", line, out.String())
		}
	}
	if err := runBounds([]string{"-only", "ranges,none"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), `no "none"`) {
		t.Errorf("an unknown bound: %v", err)
	}
}
