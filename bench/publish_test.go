package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/bench/internal/result"
)

// fixedRun has a row that failed, for the report to name.
const fixedRun = "internal/result/testdata/run.json"

// healthy writes fixedRun without the row that failed, changed as told.
func healthy(t *testing.T, change func(*result.Run)) string {
	t.Helper()
	r, err := result.Load(fixedRun)
	if err != nil {
		t.Fatal(err)
	}
	r.Tables[1].Row("badger").Error = ""
	change(r)
	file := filepath.Join(t.TempDir(), "run.json")
	if err := r.Save(file); err != nil {
		t.Fatal(err)
	}
	return file
}

func unchanged(*result.Run) {}

// TestReportFromResults makes the report and the README's part from a file.
func TestReportFromResults(t *testing.T) {
	dir := t.TempDir()
	readme := filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("<!-- figures: begin -->\n<!-- figures: end -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-from", healthy(t, unchanged), "-report", filepath.Join(dir, "docs"), "-readme", readme}
	if err := run(args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"docs/report.md": "## load", "docs/charts/overview.svg": "<svg", "docs/charts/load-1024.png": "PNG",
		"docs/readme.svg": "<svg", "README.md": "](docs/readme.svg)",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", file, want, err)
		}
	}
	if err := run([]string{"-from", fixedRun}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "coldget16 on badger: out of memory") {
		t.Errorf("a failed row: %v", err)
	}
}

func TestCompareCommand(t *testing.T) {
	var out bytes.Buffer
	old := healthy(t, unchanged)
	if err := run([]string{"-from", old, "-compare", old}, &out, io.Discard); err != nil || !strings.Contains(out.String(), "6 figures compared, 0 worse") {
		t.Errorf("with itself: %v\n%s", err, out.String())
	}
	now := healthy(t, func(r *result.Run) {
		for _, s := range r.Tables[0].Rows[0].Slices {
			s[0] /= 2
		}
	})
	if err := run([]string{"-from", now, "-compare", old}, &out, io.Discard); !errors.Is(err, errWorse) {
		t.Errorf("half the rate: %v\n%s", err, out.String())
	}
	other := healthy(t, func(r *result.Run) { r.Tables = nil })
	if err := run([]string{"-from", other, "-compare", old}, &out, io.Discard); err == nil {
		t.Error("nothing was compared, and there is no error")
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	now := time.Unix(0, 0)
	p.now = func() time.Time { return now }
	p.plan("fast", 2)
	p.plan("slow", 2)
	for _, step := range []struct {
		key  string
		took time.Duration
	}{{"fast", time.Second}, {"slow", 99 * time.Second}, {"slow", 99 * time.Second}, {"fast", time.Second}} {
		p.begin(step.key, "a "+step.key+" one")
		now = now.Add(step.took)
	}
	p.end()
	const want = "[1/4] a fast one\n[2/4, about 3 s left] a slow one\n[3/4, about 2 min left] a slow one\n[4/4, about 1 s left] a fast one\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestSizes(t *testing.T) {
	got, err := parseSizes("128,1024,16384", "250M,75M,5M")
	if want := (Size{16384, 5_000_000}); err != nil || len(got) != 3 || got[2] != want {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parseSizes("0,16", "300k"); err != nil || got[0].Keys != 300_000 || got[1].Keys != 300_000 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "k", "3kM", "0", "-1", "5000M"} {
		if n, err := parseCount(bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
}
