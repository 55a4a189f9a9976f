package result

import (
	"fmt"
	"io"
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
	for _, t := range r.Tables {
		r.writeTable(&b, t, charts)
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
	paragraph(b, fmt.Sprintf("Medians. Ratio: above 1, %s is better than its best peer.", first))
	if charts != "" {
		fmt.Fprintf(b, "![%s and its peers](%s/%s.svg)\n\n", first, charts, overviewName)
	}
	writeHeadlines(b, lines)
	b.WriteString("\n")
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

func (r *Run) writeTable(b *strings.Builder, t *Table, charts string) {
	fmt.Fprintf(b, "## %s\n\n", t.name())
	paragraph(b, capital(t.Heading())+".")
	if charts != "" && t.charted() {
		fmt.Fprintf(b, "![%s](%s/%s.svg)\n\n", t.name(), charts, t.fileName())
	}
	head, rule := "| store |", "| --- |"
	for _, c := range t.Columns {
		head += " " + c.Name + " |"
		rule += " ---: |"
		if c.Better != Unrated {
			head += " ratio |"
			rule += " ---: |"
		}
	}
	b.WriteString(head + "\n" + rule + "\n")
	for _, row := range t.Rows {
		if row.Error == "" && len(row.Slices) > 0 {
			b.WriteString(t.markdownRow(row) + "\n")
		}
	}
	b.WriteString("\n")
	for _, row := range t.Rows {
		if row.Error != "" {
			paragraph(b, fmt.Sprintf("%s failed: %s.", row.Store, row.Error))
		}
	}
}

// markdownRow has medians, the least and the greatest slice of what is rated, and
// how the first store compares.
func (t *Table) markdownRow(row *Row) string {
	text := "| " + row.Store + " |"
	if row.Reference {
		text = "| *" + row.Store + "* |"
	}
	for i, c := range t.Columns {
		s := row.Spread(i)
		text += " " + Number(s.Median)
		if c.Better == Unrated {
			text += " |"
			continue
		}
		if len(row.Slices) > 1 {
			text += " (" + Number(s.Min) + " to " + Number(s.Max) + ")"
		}
		text += " | " + emphasized(c.Ratio(t.Rows[0].Spread(i).Median, s.Median)) + " |"
	}
	return text
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
