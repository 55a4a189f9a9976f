package main

import (
	"testing"
)

// Each storage does a small run: items come back in order, and rates are above 0.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"brock", "file_storage", "file_storage_rebound"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			r, err := run(settings{Store: store, Dir: t.TempDir(), Size: 1 << 10, Items: 1000, Limit: 8})
			if err != nil {
				t.Fatal(err)
			}
			if mean(r.Fill) <= 0 || mean(r.Drain) <= 0 || r.Both <= 0 || r.Full < 1000<<10 || r.Drained <= 0 {
				t.Fatalf("%+v", r)
			}
		})
	}
	if _, err := run(settings{Store: "none", Dir: t.TempDir(), Size: 1, Items: 10}); err == nil {
		t.Fatal("there is no such storage")
	}
}
