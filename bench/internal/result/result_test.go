package result

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

const fixed = "testdata/run.json"

func load(t *testing.T) *Run {
	t.Helper()
	r, err := Load(fixed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; with -rewrite it is replaced. Got:\n%s", file, got)
	}
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	if err := load(t).Markdown(&b, "charts"); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.md", b.Bytes())
	for i, line := range strings.Split(b.String(), "\n") {
		if len(line) > columns && !strings.HasPrefix(line, "|") {
			t.Errorf("line %d has %d characters", i+1, len(line))
		}
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	r := load(t)
	r.Print(&b)
	for _, table := range r.Tables {
		table.Print(&b)
	}
	golden(t, "tables.txt", b.Bytes())
}

// TestCharts wants a chart for each table and the overview, with every store in it.
func TestCharts(t *testing.T) {
	dir := t.TempDir()
	if err := load(t).Charts(dir); err != nil {
		t.Fatal(err)
	}
	for name, stores := range map[string][]string{
		"overview": {"brock", "badger", "bbolt"}, "load-1024": {"brock", "badger", "bbolt"},
		"coldget16-1024": {"brock", "bbolt", "fio 4 KB"}, "commit1": {"brock", "bbolt"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, s := range stores {
			if !bytes.Contains(svg, []byte(">"+s+"<")) {
				t.Errorf("%s.svg does not name %s", name, s)
			}
		}
		if png, err := os.ReadFile(filepath.Join(dir, name+".png")); err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
			t.Errorf("%s.png: %v", name, err)
		}
	}
}

func TestReadme(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	const before, after = "# A store\n\n<!-- figures: begin; old -->\n", "old\n<!-- figures: end -->\n\n## More\n"
	if err := os.WriteFile(file, []byte(before+after), 0o644); err != nil {
		t.Fatal(err)
	}
	r := load(t)
	for range 2 { // a second time over what the first wrote
		if err := r.Readme(file, "docs/bench/readme.svg", "docs/bench/report.md", 1024); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "readme.md", text)
	if err := r.Readme(file, "", "", 16); err == nil {
		t.Error("no error without figures for that size")
	}
	if err := r.Readme(fixed, "", "", 1024); err == nil {
		t.Error("no error without markers")
	}
}

func TestHeadlines(t *testing.T) {
	lines := load(t).Headlines()
	want := []struct {
		figure, best float64
		peer         string
		behind       bool
	}{{256, 50.2, "bbolt", false}, {1.08, 1.04, "bbolt", true}, {34, 45, "bbolt", true}, {6872, 2643, "bbolt", false}}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %+v", len(lines), len(want), lines)
	}
	for i, w := range want {
		if l := lines[i]; l.Figure != w.figure || l.Best != w.best || l.Peer != w.peer || l.Ratio < 1 != w.behind {
			t.Errorf("line %d is %+v, want %+v", i, l, w)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	r := load(t)
	if err := r.Save(file); err != nil {
		t.Fatal(err)
	}
	again, err := Load(file)
	if err != nil || len(again.Tables) != 3 || again.Failure() == nil {
		t.Errorf("%+v, %v", again, err)
	}
	r.Format++
	if err := r.Save(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil {
		t.Error("another format was read")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		in := slices.Clone(c.in)
		if got := Median(c.in); got != c.want || !slices.Equal(in, c.in) {
			t.Errorf("median(%v) = %v, want %v; left %v", in, got, c.want, c.in)
		}
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		better             Better
		first, other, want float64
	}{{More, 10, 5, 2}, {Less, 10, 5, 0.5}, {Unrated, 10, 5, 0}, {Less, 0, 5, 0}, {More, 5, 0, 0}} {
		if got := (Column{Better: c.better}).Ratio(c.first, c.other); got != c.want {
			t.Errorf("%q: %v to %v is %v, want %v", c.better, c.first, c.other, got, c.want)
		}
	}
}
