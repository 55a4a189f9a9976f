package main

import (
	"os"
	"testing"
)

// TestMain makes this program a child of the benchmark, if it was called as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		main()
		return
	}
	os.Exit(m.Run())
}

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

// A process that is killed in the middle of the drain loses nothing, and another one goes on there.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"brock", "file_storage"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			const items = 1000
			r, err := runStore(settings{Store: store, Dir: t.TempDir(), Size: 1 << 10, Items: items, Limit: 8, Killed: true}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Reopen <= 0 || r.Read != items/2+items/tenths || r.Write != items+items/tenths || mean(r.Drain) <= 0 {
				t.Fatalf("%+v", r)
			}
		})
	}
}
