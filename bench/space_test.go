package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
)

// TestSpaceWorks runs every work on every store at a small scale: each checks
// that the store has the keys that it must have in the end.
func TestSpaceWorks(t *testing.T) {
	stores, err := pickSpaceStores("all", "")
	if err != nil {
		t.Fatal(err)
	}
	c := spaceConfig{size: 1 << 20, valueSize: 4096, factor: 1, ttl: time.Second}
	for _, s := range stores {
		for _, w := range spaceWorks() {
			if testing.Short() && w.ttl {
				continue
			}
			r, err := measureSpace(filepath.Join(t.TempDir(), "store"), s, w, c)
			if errors.Is(err, kv.ErrNoTTL) {
				continue
			}
			if err != nil {
				t.Errorf("%s on %s: %v", w.name, s.label, err)
				continue
			}
			if r.ops == 0 || r.user == 0 || len(r.points) < 2 || r.points[r.begin].disk == 0 {
				t.Errorf("%s on %s: %d writes, %d bytes, points %v", w.name, s.label, r.ops, r.user, r.points)
			}
		}
	}
}

// TestSpaceCommand runs the command as a user would, and reads its picture.
func TestSpaceCommand(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "x.svg")
	var out strings.Builder
	args := []string{"-mb", "1", "-factor", "0.5", "-rest", "100ms", "-ratios", "0.3,1", "-works", "uniform,large", "-svg", svg, "-dir", t.TempDir()}
	if err := runSpace(args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"brock 0.3", "brock 1", "uniform: ", "large: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 4 {
		t.Errorf("%d lines in the picture, want 4", lines)
	}
}

// TestSpaceCounts makes sure that what is live is counted as it is written.
func TestSpaceCounts(t *testing.T) {
	stores, err := pickSpaceStores("brock", "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := stores[0].Open(kv.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := newChurn(s, spaceConfig{size: 100 * (100 + keySize), valueSize: 100}, spaceWork{})
	for _, step := range []func() error{c.load, func() error { return c.set(3) }, func() error { return c.remove(4) }} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.live.Load(); got != 99*(100+keySize) {
		t.Errorf("%d bytes are live, want %d", got, 99*(100+keySize))
	}
	if err := c.check(); err != nil {
		t.Error(err)
	}
	c.sizes[5] = -1
	if err := c.check(); err == nil {
		t.Error("check passed a key too many")
	}
}
