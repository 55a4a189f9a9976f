package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/brockdb/brock/bench/internal/programs"
)

// TestPrograms runs each way at a small scale: each checks by itself that it has done its work.
func TestPrograms(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"programs", "-n", "300", "-slices", "1", "-dir", t.TempDir()}, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range programs.Rows() {
		for _, way := range row.Ways {
			if !strings.Contains(out.String(), "  "+way.Store+" ") {
				t.Errorf("nothing is said of %s", way.Store)
			}
		}
	}
	for _, args := range [][]string{{"-n", "0"}, {"-slices", "0"}, {"-rows", "("}} {
		if err := run(append([]string{"programs"}, args...), &out, &out); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
