package result

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Print writes the machine and the versions.
func (r *Run) Print(w io.Writer) {
	m := r.Machine
	fmt.Fprintf(w, "%s, %s, %s, GOMAXPROCS %d, %.1f GB of memory free, CGO_ENABLED=%s, %.0f ns to read the clock\n",
		r.Time, m.Go, m.Platform, m.GOMAXPROCS, float64(m.Memory)/(1<<30), m.Cgo, m.ClockNs)
	for _, s := range r.Stores {
		fmt.Fprintf(w, "  %s %s %s\n", s.Name, s.Module, s.Version)
	}
}

// Print writes the table with aligned columns: medians, and how the first store
// compares.
func (t *Table) Print(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n", t.Workload, t.Heading())
	if len(t.Rows) == 0 {
		return
	}
	head := []string{"store"}
	for _, c := range t.Columns {
		head = append(head, c.Name)
		if c.Better != Unrated {
			head = append(head, "x "+t.Rows[0].Store)
		}
	}
	lines := [][]string{head}
	for _, row := range t.Rows {
		if row.Error != "" || len(row.Slices) == 0 {
			continue
		}
		cells := []string{row.Store}
		for i, c := range t.Columns {
			v := row.Spread(i).Median
			cells = append(cells, Number(v))
			if c.Better != Unrated {
				cells = append(cells, ratioText(c.Ratio(t.Rows[0].Spread(i).Median, v)))
			}
		}
		lines = append(lines, cells)
	}
	align(w, lines)
	for _, row := range t.Rows {
		if row.Error != "" {
			fmt.Fprintf(w, "  %s failed: %s\n", row.Store, row.Error)
		}
	}
}

// Heading is the title with the number of pairs.
func (t *Table) Heading() string {
	if t.Keys == 0 {
		return t.Title
	}
	return fmt.Sprintf("%s (%s pairs)", t.Title, Group(t.Keys))
}

func ratioText(r float64) string {
	switch {
	case r == 0:
		return "-"
	case r >= 10:
		return strconv.FormatFloat(r, 'f', 0, 64)
	case r >= 1.95:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 2, 64)
}

// Number formats v with about three digits.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1e3:
		return Group(int(math.Round(v)))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// Group writes n with commas.
func Group(n int) string {
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
