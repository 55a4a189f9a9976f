package result

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // PNG
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG
)

const (
	overviewName = "overview"
	chartWidth   = 22 * vg.Centimeter
	tableHeight  = 9 * vg.Centimeter
	lineHeight   = 0.62 * vg.Centimeter
)

// palette has a colour for each store, in the order of the run.
var palette = []color.RGBA{
	{0xc6, 0x28, 0x28, 255}, {0x15, 0x65, 0xc0, 255}, {0x64, 0xb5, 0xf6, 255}, {0x2e, 0x7d, 0x32, 255}, {0x9c, 0xcc, 0x65, 255},
	{0x6a, 0x1b, 0x9a, 255}, {0xef, 0x6c, 0x00, 255}, {0x00, 0x83, 0x8f, 255}, {0x5d, 0x40, 0x37, 255}, {0xbc, 0xaa, 0xa4, 255},
}

func (r *Run) color(store string) color.Color {
	i := slices.IndexFunc(r.Stores, func(s Store) bool { return s.Name == store })
	if i < 0 {
		return color.Gray{0x90}
	}
	return palette[i%len(palette)]
}

// Charts writes the overview and a chart for each table to a directory, each as
// SVG and as PNG.
func (r *Run) Charts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if lines := r.Headlines(); len(lines) > 0 {
		if err := r.Overview(filepath.Join(dir, overviewName), lines); err != nil {
			return err
		}
	}
	for _, t := range r.Tables {
		if !t.charted() {
			continue
		}
		if err := r.tableChart(filepath.Join(dir, t.fileName()), t); err != nil {
			return fmt.Errorf("chart of %s: %w", t.name(), err)
		}
	}
	return nil
}

// ReadmeChart draws the headlines that Readme puts into its table.
func (r *Run) ReadmeChart(base string, valueSize int) error {
	return r.Overview(base, r.headlinesOf(valueSize))
}

// Overview draws a line for each headline, with a mark for each peer: right of 1 the
// first store is ahead of it.
func (r *Run) Overview(base string, lines []Headline) error {
	if len(lines) == 0 {
		return fmt.Errorf("%s: nothing to draw", base)
	}
	p := newPlot()
	p.Title.Text = fmt.Sprintf("%s beside each peer: above 1, %[1]s is better", lines[0].First)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ratioTicks{}
	p.Legend.Top, p.Legend.Left = false, false
	names := make([]string, len(lines))
	peers := map[string]plotter.XYs{}
	least, most := 0.5, 2.0
	for i, h := range lines {
		y := float64(len(lines) - 1 - i) // the first line on top
		names[int(y)] = h.Label
		if h.Value != "" {
			names[int(y)] += ", " + h.Value
		}
		for _, a := range h.Others {
			if a.Ratio > 0 {
				peers[a.Store] = append(peers[a.Store], plotter.XY{X: a.Ratio, Y: y})
				least, most = min(least, a.Ratio), max(most, a.Ratio)
			}
		}
	}
	p.NominalY(names...)
	one, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(lines)) - 0.5}})
	if err != nil {
		return err
	}
	one.Color = r.color(lines[0].First)
	one.Width = 1.5
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid, one)
	p.Legend.Add(lines[0].First, one)
	for _, s := range r.Stores {
		if len(peers[s.Name]) == 0 {
			continue
		}
		marks, err := plotter.NewScatter(peers[s.Name])
		if err != nil {
			return err
		}
		marks.GlyphStyle = draw.GlyphStyle{Color: r.color(s.Name), Radius: 3.5, Shape: draw.CircleGlyph{}}
		p.Add(marks)
		p.Legend.Add(s.Name, marks)
	}
	p.X.Min, p.X.Max = least/1.2, most*math.Pow(most/least, 0.25) // room for the legend at the right
	p.Y.Min, p.Y.Max = -0.5, float64(len(lines))-0.5
	return save(p, base, 3*vg.Centimeter+lineHeight*vg.Length(max(len(lines), 8)))
}

// ratioTicks are powers of two, or of ten where these are many.
type ratioTicks struct{}

func (ratioTicks) Ticks(least, most float64) []plot.Tick {
	step := 2.0
	if most/least > 1000 {
		step = 10
	}
	var ticks []plot.Tick
	for v := math.Pow(step, math.Ceil(math.Log(least)/math.Log(step)-1e-9)); v <= most; v *= step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 4, 64)})
	}
	return ticks
}

// charted says whether there is a figure to draw.
func (t *Table) charted() bool {
	return t.rated() >= 0 && slices.ContainsFunc(t.Rows, func(r *Row) bool { return r.Spread(t.rated()).Max > 0 })
}

// rated returns the first column that stores are compared by, -1 if there is none.
func (t *Table) rated() int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Better != Unrated })
}

// bars are the spreads of stores, for their lines of error.
type bars []Spread

func (b bars) Len() int                      { return len(b) }
func (b bars) XY(i int) (x, y float64)       { return float64(i), b[i].Median }
func (b bars) YError(i int) (lo, hi float64) { return b[i].Median - b[i].Min, b[i].Max - b[i].Median }

// tableChart draws a bar for each store: the median, and a line from the least to
// the greatest slice.
func (r *Run) tableChart(base string, t *Table) error {
	p := newPlot()
	at := t.rated()
	better := map[Better]string{Less: "less is better", More: "more is better"}[t.Columns[at].Better]
	p.Title.Text = fmt.Sprintf("%s: %s (%s)", t.name(), t.Columns[at].Name, better)
	p.Y.Min = 0
	var names []string
	var spreads bars
	for _, row := range t.Rows {
		if row.Error != "" || len(row.Slices) == 0 {
			continue
		}
		s := row.Spread(at)
		bar, err := plotter.NewBarChart(plotter.Values{s.Median}, 1.2*vg.Centimeter)
		if err != nil {
			return err
		}
		bar.XMin, bar.Color, bar.LineStyle.Width = float64(len(names)), r.color(row.Store), 0
		p.Add(bar)
		names, spreads = append(names, row.Store), append(spreads, s)
	}
	errors, err := plotter.NewYErrorBars(spreads)
	if err != nil {
		return err
	}
	p.Add(errors)
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	return save(p, base, tableHeight)
}

// newPlot is one in a typeface without serifs.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, s := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		s.Font.Variant = "Sans"
	}
	p.Title.Padding = 3 * vg.Millimeter
	return p
}

func save(p *plot.Plot, base string, height vg.Length) error {
	for _, kind := range []string{".svg", ".png"} {
		if err := p.Save(chartWidth, height, base+kind); err != nil {
			return err
		}
	}
	return nil
}
