package result

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const columns = 100 // of a line of prose

// Markdown writes the report. Charts are linked from the directory charts, as
// Charts makes them there; none are linked if charts is empty.
func (r *Run) Markdown(w io.Writer, charts string) error {
	var b strings.Builder
	b.WriteString("# Measured by `go run ./bench`\n\n")
	r.writeMachine(&b)
	r.writeStores(&b)
	r.writeOverview(&b, charts)
	paragraph(&b, "Below: medians. **Bold**: better than the first store's. In brackets the least and the greatest slice, where those of a store meet those of the first.")
	for i, t := range r.Tables {
		if !slices.ContainsFunc(r.Tables[:i], t.sameWorkload) {
			r.writeWorkload(&b, slices.DeleteFunc(slices.Clone(r.Tables), func(o *Table) bool { return !t.sameWorkload(o) }), charts)
		}
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func (r *Run) writeMachine(b *strings.Builder) {
	m := r.Machine
	list := []Pair{
		{"time", r.Time}, {"command", "`bench " + strings.Join(r.Command, " ") + "`"}, {"Go", m.Go + ", " + m.Platform}, {"kernel", m.Kernel},
		{"processor", fmt.Sprintf("%d x %s, GOMAXPROCS %d", m.CPUs, m.CPU, m.GOMAXPROCS)},
		{"memory free", fmt.Sprintf("%.1f GB", float64(m.Memory)/(1<<30))}, {"file system", m.FileSystem}, {"cgo", m.Cgo},
		{"reading the clock", Number(m.ClockNs) + " ns, in every latency"},
	}
	list = append(list, r.Settings...)
	spin, other := r.noise()
	if spin.Median > 0 {
		list = append(list,
			Pair{"noise: a fixed loop", fmt.Sprintf("%s ms (%s to %s), before each slice", Number(spin.Median), Number(spin.Min), Number(spin.Max))},
			Pair{"noise: others' CPU", fmt.Sprintf("%.0f %% of all (%.0f to %.0f), during slices of 0.1 s and more", 100*other.Median, 100*other.Min, 100*other.Max)})
	}
	b.WriteString("| | |\n| --- | --- |\n")
	for _, p := range list {
		if p.Value != "" {
			fmt.Fprintf(b, "| %s | %s |\n", p.Name, cell(p.Value))
		}
	}
	b.WriteString("\n")
	for _, what := range r.LeftOut {
		paragraph(b, "**Left out**: "+what+".")
	}
}

// noise is that of all slices.
func (r *Run) noise() (spin, other Spread) {
	var spins, others []float64
	for _, t := range r.Tables {
		spins, others = append(spins, t.Noise.Spin...), append(others, t.Noise.Other...)
	}
	return SpreadOf(spins), SpreadOf(others)
}

func (r *Run) writeStores(b *strings.Builder) {
	b.WriteString("## Stores\n\n| store | version | how it is opened |\n| --- | --- | --- |\n")
	for _, s := range r.Stores {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.Name, cell(s.Version), cell(s.Setup))
	}
	b.WriteString("\n")
}

func (r *Run) writeOverview(b *strings.Builder, charts string) {
	lines := r.Headlines()
	if len(lines) == 0 {
		return
	}
	first := lines[0].First
	b.WriteString("## Overview\n\n")
	paragraph(b, fmt.Sprintf("How many times %s is better than its best peer, for each size of values. **Bold**: %[1]s is worse.", first))
	if charts != "" {
		fmt.Fprintf(b, "![%s and its peers](%s/%s.svg)\n\n", first, charts, overviewName)
	}
	var labels, sizes []string
	cells := map[[2]string]string{}
	for _, h := range lines {
		if !slices.Contains(labels, h.Label) {
			labels = append(labels, h.Label)
		}
		if !slices.Contains(sizes, h.Value) {
			sizes = append(sizes, h.Value)
		}
		cells[[2]string{h.Label, h.Value}] = emphasized(h.Ratio) + " " + h.Peer
	}
	writeHead(b, "", sizes)
	for _, l := range labels {
		b.WriteString("| " + l + " |")
		for _, s := range sizes {
			b.WriteString(" " + cells[[2]string{l, s}] + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// writeHead begins a table: a column of words, then columns of figures.
func writeHead(b *strings.Builder, first string, columns []string) {
	fmt.Fprintf(b, "| %s | %s |\n| --- |%s\n", first, strings.Join(columns, " | "), strings.Repeat(" ---: |", len(columns)))
}

func writeHeadlines(b *strings.Builder, lines []Headline) {
	fmt.Fprintf(b, "| | %s | best peer | | ratio |\n| --- | ---: | ---: | --- | ---: |\n", lines[0].First)
	for _, h := range lines {
		label := h.Label
		if h.Value != "" {
			label += ", " + h.Value
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", label, Number(h.Figure), Number(h.Best), h.Peer, emphasized(h.Ratio))
	}
}

// emphasized sets what is below 1 in bold, so that losses are seen first.
func emphasized(ratio float64) string {
	text := ratioText(ratio)
	if ratio > 0 && ratio < 1 {
		return "**" + text + "**"
	}
	return text
}

// sameWorkload says whether the two differ at most in the size of values.
func (t *Table) sameWorkload(o *Table) bool { return t.Workload == o.Workload }

// writeWorkload writes one table for all sizes of values: a row for each figure, a column for
// each store.
func (r *Run) writeWorkload(b *strings.Builder, sizes []*Table, charts string) {
	fmt.Fprintf(b, "## %s\n\n", sizes[0].Workload)
	var titles []string
	for _, t := range sizes {
		if title := strings.TrimPrefix(t.Title, fmt.Sprintf("values of %d B, ", t.ValueSize)); !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
	}
	title := capital(strings.Join(titles, "; ")) + "."
	if same := equalFigures(sizes); len(same) > 0 {
		title += " Equal for all stores: " + strings.Join(same, ", ") + "."
	}
	paragraph(b, title)
	for _, t := range sizes {
		if charts != "" && t.charted() {
			fmt.Fprintf(b, "![%s](%s/%s.svg)\n", t.name(), charts, t.fileName())
		}
	}
	stores := r.storesOf(sizes)
	b.WriteString("\n")
	writeHead(b, "", stores)
	for i, c := range sizes[0].Columns {
		if _, same := equalFigure(sizes, i); same || sizes[0].minor(c.Name) {
			continue
		}
		for _, t := range sizes {
			label := c.Name
			if t.ValueSize > 0 {
				label += ", " + Group(t.ValueSize) + " B"
			}
			b.WriteString("| " + label + " |")
			for _, name := range stores {
				b.WriteString(t.cell(i, name) + " |")
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
	for _, t := range sizes {
		for _, row := range t.Rows {
			if row.Error != "" {
				paragraph(b, fmt.Sprintf("%s failed (%s): %s.", row.Store, t.name(), row.Error))
			}
		}
	}
}

// minor says whether a figure is in the data and on the terminal only: it follows from others, as
// the CPU time of reads that keep one processor or all busy, or tells stores little apart.
func (t *Table) minor(column string) bool {
	switch column {
	case "seconds", "CPU ns/entry", "allocs/entry", "disk MB":
		return true
	case "CPU us/op":
		return slices.Contains([]string{"firstseek", "get", "get16", "miss", "seek", "last", "ycsbC"}, t.Workload)
	}
	return false
}

// storesOf are the stores that the tables have figures of, in the order of the run; then what
// they are measured against.
func (r *Run) storesOf(tables []*Table) (stores []string) {
	for _, s := range r.Stores {
		if slices.ContainsFunc(tables, func(t *Table) bool { return t.Row(s.Name).measured() }) {
			stores = append(stores, s.Name)
		}
	}
	for _, t := range tables {
		for _, row := range t.Rows {
			if row.measured() && !slices.Contains(stores, row.Store) {
				stores = append(stores, row.Store)
			}
		}
	}
	return stores
}

// measured says whether a row has figures; no row has none.
func (r *Row) measured() bool { return r != nil && r.Error == "" && len(r.Slices) > 0 }

// equalFigures names the columns in which all stores have the same figure.
func equalFigures(tables []*Table) (same []string) {
	for i, c := range tables[0].Columns {
		if text, ok := equalFigure(tables, i); ok && !tables[0].minor(c.Name) {
			same = append(same, c.Name+" "+text)
		}
	}
	return same
}

func equalFigure(tables []*Table, column int) (text string, ok bool) {
	rows := 0
	for _, t := range tables {
		for _, row := range t.Rows {
			if !row.measured() {
				continue
			}
			s := Number(row.Spread(column).Median)
			if rows++; rows > 1 && s != text {
				return "", false
			}
			text = s
		}
	}
	return text, rows > 1
}

// cell is a store's median. The first rated column has the least and the greatest slice too, of
// the first store and of each whose range meets that of the first: there the medians alone don't
// say which store is better. The chart shows all ranges.
func (t *Table) cell(column int, store string) string {
	row := t.Row(store)
	if !row.measured() {
		return ""
	}
	s, first := row.Spread(column), t.Rows[0].Spread(column)
	text := Number(s.Median)
	if ratio := t.Columns[column].Ratio(first.Median, s.Median); ratio > 0 && ratio < 1 && !row.Reference {
		text = "**" + text + "**"
	}
	if column == t.rated() && len(row.Slices) > 1 && s.Min <= first.Max && s.Max >= first.Min {
		text += " (" + Number(s.Min) + "-" + Number(s.Max) + ")"
	}
	return " " + text
}

// name is the workload and the size of values.
func (t *Table) name() string {
	if t.ValueSize == 0 {
		return t.Workload
	}
	return fmt.Sprintf("%s, %d B", t.Workload, t.ValueSize)
}

func (t *Table) fileName() string {
	if t.ValueSize == 0 {
		return t.Workload
	}
	return fmt.Sprintf("%s-%d", t.Workload, t.ValueSize)
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// paragraph writes words in lines of at most 100 characters.
func paragraph(b *strings.Builder, text string) {
	line := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case line+1+len(word) > columns:
			b.WriteString("\n")
			line = 0
		default:
			b.WriteString(" ")
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	b.WriteString("\n\n")
}
