package result

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Headline is one line of the overview: the first store beside the best of its peers.
type Headline struct {
	Label  string
	Value  string // size of values
	First  string // the first store
	Figure float64
	Best   float64 // of the peers
	Peer   string
	Ratio  float64   // above 1: the first store is ahead
	Others []Against // every peer
}

// Against is a peer and the ratio of the first store to it: above 1, the first store is better.
type Against struct {
	Store string
	Ratio float64
}

// headline is what to take: a column of a workload, and its words.
type headline struct{ workload, column, label string }

// headlines are in the order of the overview.
var headlines = []headline{
	{"load", "k/s", "load until quiet, k/s"},
	{"load", "written/raw", "bytes written by the load, over raw"},
	{"overwrite", "k/s", "overwrites until quiet, k/s"},
	{"get", "p50 us", "get, hot, p50 us"},
	{"get16", "k/s", "gets, hot, 16 goroutines, k/s"},
	{"miss", "p50 us", "get of a missing key, p50 us"},
	{"scankeys", "ns/entry", "scan of keys, hot, ns an entry"},
	{"scanvalues", "ns/entry", "scan with values, hot, ns an entry"},
	{"seek", "p50 us", "seek and 50 pairs, hot, p50 us"},
	{"firstseek", "p50 us", "first seek after opening, p50 us"},
	{"firstscan", "ns/entry", "first scan after opening, ns an entry"},
	{"ycsbA", "k ops/s", "YCSB A, k/s"},
	{"ycsbB", "k ops/s", "YCSB B, k/s"},
	{"ycsbC", "k ops/s", "YCSB C, k/s"},
	{"ycsbD", "k ops/s", "YCSB D, k/s"},
	{"ycsbE", "k ops/s", "YCSB E, k/s"},
	{"ycsbF", "k ops/s", "YCSB F, k/s"},
	{"coldget1", "k/s", "gets from the disk, 1 goroutine, k/s"},
	{"coldget16", "k/s", "gets from the disk, 16 goroutines, k/s"},
	{"coldget64", "k/s", "gets from the disk, 64 goroutines, k/s"},
	{"coldget64", "p99 us", "gets from the disk, 64 goroutines, p99 us"},
	{"coldzipf16", "k/s", "gets from the disk, 16 goroutines, Zipf, k/s"},
	{"coldscan", "k entries/s", "scan with values from the disk, k entries/s"},
	{"coldseek", "k/s", "seek and 50 pairs from the disk, k/s"},
	{"coldlarge", "k/s", "gets of 2,932 KB from the disk, k/s"},
	{"commit1", "commits/s", "durable commits, 1 writer, a second"},
	{"commit64", "commits/s", "durable commits, 64 writers, a second"},
	{"large", "get 64 KB us", "get of 64 KB, hot, us"},
	{"large", "get 2932 KB us", "get of 2,932 KB, hot, us"},
	{"large", "set 2932 KB us", "set of 2,932 KB, buffered, us"},
	{"largegrpc", "get 2932 KB us", "get of 2,932 KB through gRPC, us"},
	{"reopen", "open ms", "opening after kill -9, ms"},
}

// Headlines returns the lines of the overview that this run has, for each size of
// values.
func (r *Run) Headlines() []Headline {
	var lines []Headline
	for _, h := range headlines {
		for _, t := range r.Tables {
			if t.Workload != h.workload {
				continue
			}
			if line, ok := t.headline(h); ok {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func (t *Table) headline(h headline) (line Headline, ok bool) {
	for i, c := range t.Columns {
		if c.Name != h.column || len(t.Rows) < 2 || len(t.Rows[0].Slices) == 0 {
			continue
		}
		line = Headline{Label: h.label, First: t.Rows[0].Store, Figure: t.Rows[0].Spread(i).Median}
		if t.ValueSize > 0 {
			line.Value = fmt.Sprintf("%s B", Group(t.ValueSize))
		}
		for _, row := range t.Rows[1:] {
			if row.Reference || len(row.Slices) == 0 {
				continue
			}
			v := row.Spread(i).Median
			ratio := c.Ratio(line.Figure, v)
			line.Others = append(line.Others, Against{row.Store, ratio})
			if line.Peer == "" || ratio > 0 && ratio < line.Ratio {
				line.Best, line.Peer, line.Ratio = v, row.Store, ratio
			}
		}
		return line, line.Peer != ""
	}
	return line, false
}

const (
	figuresBegin = "<!-- figures: begin"
	figuresEnd   = "<!-- figures: end -->"
)

// Readme replaces what stands between the markers of a Markdown file: by a chart,
// whose path is relative to that file, and a table of the headlines for one size of
// values and of those without one. report is a link to all rows.
func (r *Run) Readme(file, chart, report string, valueSize int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin := strings.Index(string(text), figuresBegin)
	end := strings.Index(string(text), figuresEnd)
	if begin < 0 || end < begin {
		return fmt.Errorf("%s has no lines %q and %q", file, figuresBegin, figuresEnd)
	}
	lines := r.headlinesOf(valueSize)
	if !slices.ContainsFunc(lines, func(h Headline) bool { return h.Value != "" }) {
		return fmt.Errorf("there are no figures for values of %d B", valueSize)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s; written by go run ./bench -readme -->\n", figuresBegin)
	fmt.Fprintf(&b, "![%s and its peers](%s)\n\n", lines[0].First, chart)
	paragraph(&b, fmt.Sprintf("Values of %s B where nothing else is said, medians of %s slices, %d cores. Ratio: above 1, %s is better than its best peer; **below 1, worse**. [All rows, the machine and the settings](%s). Absolute figures mean little on another machine.",
		Group(valueSize), r.setting("slices"), r.Machine.CPUs, lines[0].First, report))
	for i := range lines {
		lines[i].Value = "" // the paragraph says it
	}
	writeHeadlines(&b, lines)
	return os.WriteFile(file, []byte(string(text[:begin])+b.String()+string(text[end:])), 0o644)
}

// headlinesOf are those of one size of values; without the size, as it is said once.
func (r *Run) headlinesOf(valueSize int) (lines []Headline) {
	size := fmt.Sprintf("%s B", Group(valueSize))
	for _, h := range r.Headlines() {
		if h.Value == size || h.Value == "" {
			lines = append(lines, h)
		}
	}
	return lines
}

func (r *Run) setting(name string) string {
	for _, p := range r.Settings {
		if p.Name == name {
			return p.Value
		}
	}
	return "some"
}
