package result

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// scaled multiplies all slices of a column of a store.
func scaled(r *Run, workload, column, store string, by ...float64) {
	t := r.Find(workload, 1024)
	if t == nil {
		t = r.Find(workload, 0)
	}
	row, i := t.Row(store), t.column(column)
	for n, s := range row.Slices {
		s[i] *= by[n%len(by)]
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Run)
		worse  []string
	}{
		{"the same", func(*Run) {}, nil},
		{"a rate that falls", func(r *Run) { scaled(r, "load", "k/s", "brock", 0.8) }, []string{"load, 1024 B: k/s"}},
		{"a time that grows", func(r *Run) { scaled(r, "commit1", "p50 us", "brock", 1.3) }, []string{"commit1: p50 us"}},
		{"a little", func(r *Run) { scaled(r, "load", "k/s", "brock", 0.95) }, nil},
		{"better", func(r *Run) { scaled(r, "load", "k/s", "brock", 2) }, nil},
		{"one slice as good as before", func(r *Run) { scaled(r, "load", "k/s", "brock", 1.05, 0.7, 0.7) }, nil},
		{"a slow machine", func(r *Run) {
			for _, s := range []string{"brock", "badger", "bbolt"} {
				scaled(r, "load", "k/s", s, 0.7)
			}
		}, nil},
		{"what is not rated", func(r *Run) { scaled(r, "load", "seconds", "brock", 9) }, nil},
		{"a peer", func(r *Run) { scaled(r, "load", "k/s", "bbolt", 0.1) }, nil},
		{"the disk", func(r *Run) { scaled(r, "coldget16", "k/s", "fio 4 KB", 0.1) }, nil},
		{"other work", func(r *Run) { r.Tables[0].Keys++; scaled(r, "load", "k/s", "brock", 0.1) }, nil},
	} {
		now := load(t)
		c.change(now)
		changes := Compare(load(t), now, 0.1)
		var worse []string
		for _, ch := range changes {
			if ch.Worse {
				worse = append(worse, ch.Table+": "+ch.Column)
			}
		}
		if !slices.Equal(worse, c.worse) {
			t.Errorf("%s: worse are %q, want %q", c.name, worse, c.worse)
		}
		var out bytes.Buffer
		if got := PrintChanges(&out, changes, 0.1); got != len(c.worse) || strings.Count(out.String(), "WORSE") != got {
			t.Errorf("%s: %d are worse, want %d:\n%s", c.name, got, len(c.worse), out.String())
		}
	}
}

func TestCompareOfOneSlice(t *testing.T) {
	old, now := load(t), load(t)
	for _, r := range []*Run{old, now} {
		for _, row := range r.Tables[2].Rows {
			row.Slices = row.Slices[:1]
		}
	}
	scaled(now, "commit1", "commits/s", "brock", 0.5)
	worse := 0
	for _, ch := range Compare(old, now, 0.1) {
		if ch.Worse {
			worse++
		}
	}
	if worse != 1 {
		t.Errorf("%d figures are worse, want 1", worse)
	}
}
