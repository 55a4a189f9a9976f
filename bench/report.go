package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Environment says where and with what a run was made.
type Environment struct {
	Time     string            `json:"time"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	CPUs     int               `json:"cpus"`
	Memory   int64             `json:"memory_available"`
	Cgo      string            `json:"cgo"`
	ClockNs  float64           `json:"clock_ns"` // of reading the clock, in every latency
	Modules  map[string]string `json:"modules"`
	Command  []string          `json:"command"`
}

func environment(makers []Maker) Environment {
	e := Environment{
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		Memory: memoryAvailable(), ClockNs: clockCost(), Modules: map[string]string{}, Command: os.Args[1:],
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return e
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" {
			e.Cgo = s.Value
		}
	}
	for _, d := range info.Deps {
		for _, m := range makers {
			if m.Module == d.Path {
				e.Modules[d.Path] = d.Version
			}
		}
	}
	return e
}

func clockCost() float64 {
	const n = 100_000
	start := time.Now()
	for range n {
		_ = time.Since(start)
	}
	return float64(time.Since(start).Nanoseconds()) / n
}

func (e Environment) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %s, %d CPUs, %.1f GB of memory free, CGO_ENABLED=%s, %.0f ns to read the clock\n",
		e.Time, e.Go, e.Platform, e.CPUs, float64(e.Memory)/(1<<30), e.Cgo, e.ClockNs)
	for module, version := range e.Modules {
		fmt.Fprintf(w, "  %s %s\n", module, version)
	}
}

// print writes the table with aligned columns.
func (t *Table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n", t.Workload.Name, t.Title)
	if len(t.Rows) == 0 {
		return
	}
	head := []string{"store"}
	for _, f := range t.Workload.Figures {
		head = append(head, f.Name)
		if f.Better != Unrated {
			head = append(head, "x "+t.Rows[0].Store)
		}
	}
	lines := [][]string{head}
	first := t.Rows[0].median()
	var failed []*Result
	for _, row := range t.Rows {
		if row.Error != "" {
			failed = append(failed, row)
			continue
		}
		cells := []string{row.Store}
		for i, v := range row.median() {
			cells = append(cells, number(v))
			switch t.Workload.Figures[i].Better {
			case Less:
				cells = append(cells, ratio(v, first[i]))
			case More:
				cells = append(cells, ratio(first[i], v))
			}
		}
		lines = append(lines, cells)
	}
	align(w, lines)
	for _, row := range failed {
		fmt.Fprintf(w, "  %s failed: %s\n", row.Store, row.Error)
	}
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return strconv.FormatFloat(a/b, 'f', 2, 64)
}

// number formats v with about three digits.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1e4:
		return group(int(math.Round(v)))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// group writes n with commas.
func group(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func align(w io.Writer, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l {
			widths[i] = max(widths[i], len(c))
		}
	}
	for _, l := range lines {
		fmt.Fprintf(w, "  %-*s", widths[0], l[0])
		for i, c := range l[1:] {
			fmt.Fprint(w, "  ", strings.Repeat(" ", widths[i+1]-len(c)), c)
		}
		fmt.Fprintln(w)
	}
}
