package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	for _, test := range []struct {
		total, done int64
		want        string
	}{
		{0, 0, "load: 10s\n"},
		{0, 5_000_000, "load: 5.00 MB, 500 kB/s\n"},
		{20_000_000, 5_000_000, "load: 25% of 20.0 MB, 500 kB/s, 30s left\n"},
		{20_000_000, 0, "load: 10s\n"},
		{10, 20, "load: 200% of 10 B, 1 B/s, 0s left\n"}, // a source that grew meanwhile
	} {
		var out bytes.Buffer
		w := &Work{out: &Output{w: &out}, name: "load", total: test.total, begin: time.Now().Add(-10 * time.Second)}
		w.Add(test.done)
		w.line()
		if out.String() != test.want {
			t.Errorf("got %q, want %q", out.String(), test.want)
		}
	}
}

func TestShortWorkShowsNothing(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		w := (&Output{w: &out, terminal: terminal}).Start("load", 100)
		w.Add(100)
		w.End()
		if out.Len() > 0 {
			t.Errorf("terminal %v: %q", terminal, out.String())
		}
	}
}

func TestBar(t *testing.T) {
	for total, want := range map[int64]string{0: "B/s", 1000: "50%"} {
		var out bytes.Buffer
		w := &Work{out: &Output{w: &out}, name: "load", total: total}
		bar := w.bar()
		for _, done := range []int64{0, 500, 1000, 2000} {
			w.done.Store(done)
			w.draw(bar)
		}
		if !strings.Contains(out.String(), "load") || !strings.Contains(out.String(), want) {
			t.Errorf("total %d: %q", total, out.String())
		}
	}
}
