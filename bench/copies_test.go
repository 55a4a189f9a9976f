package main

import (
	"io"
	"strings"
	"testing"
)

// TestCopiesCommand copies a small store, plain and encrypted, beside its writers: the command
// fails if what was restored differs.
func TestCopiesCommand(t *testing.T) {
	for _, args := range [][]string{nil, {"-encrypted"}} {
		var out strings.Builder
		args = append(args, "-pairs", "2000", "-rest", "20ms", "-rate", "5000", "-writers", "4", "-dir", t.TempDir())
		if err := runCopies(args, &out, io.Discard); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out.String())
		}
		for _, line := range []string{"load", "alone", "checkpoint", "one a second", "full backup", "increment", "restore", "compare"} {
			if !strings.Contains(out.String(), "\n"+line) {
				t.Errorf("%q: no %q in:\n%s", args, line, out.String())
			}
		}
	}
	if err := runCopies([]string{"-value", "7"}, io.Discard, io.Discard); err == nil {
		t.Error("values that are too short for their number are taken")
	}
}

// newCopiesTest returns a store of a hundred pairs and a restored copy of it.
func newCopiesTest(t *testing.T) *copies {
	c := &copies{dir: t.TempDir(), data: NewDataset(100, 100)}
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, do := range []func() (int64, error){c.load, c.backup, c.restore} {
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestSameItems has the command find each kind of difference.
func TestSameItems(t *testing.T) {
	for _, changed := range []func(c *copies) error{
		func(c *copies) error { return c.db.Set([]byte("vsz=00100-k=0000000008"), []byte("other")) },
		func(c *copies) error { return c.db.Delete([]byte("vsz=00100-k=0000000198")) },
		func(c *copies) error { return c.db.Set([]byte("z"), nil) },
	} {
		c := newCopiesTest(t)
		if _, err := c.compare(); err != nil {
			t.Fatal(err)
		}
		if err := changed(c); err != nil {
			t.Fatal(err)
		}
		if _, err := c.compare(); err == nil {
			t.Error("stores that differ count as equal")
		}
	}
}
