package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"time"
)

// plot is a picture of panels, one for each work: disk use over time in MB, a
// line for each store, and what is live, as the first store had it, as an area.
type plot struct{ panels []panel }

type panel struct {
	title string
	lines []line
}

type line struct {
	label  string
	points []point
}

const (
	panelWidth, panelHeight = 460, 260
	plotLeft, plotTop       = 56, 30
	plotRight, plotBottom   = 12, 34
	panelsAcross            = 2
	headHeight              = 40
	mostPoints              = 300 // of a line
)

var lineColors = []string{"#c62828", "#1565c0", "#2e7d32", "#6a1b9a", "#ef6c00", "#00838f", "#5d4037", "#546e7a"}

func (p *plot) svg(command string) []byte {
	var b bytes.Buffer
	rows := (len(p.panels) + panelsAcross - 1) / panelsAcross
	w, h := panelsAcross*panelWidth, headHeight+rows*panelHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", w, h)
	fmt.Fprintf(&b, `<text x="10" y="16">%s</text>`+"\n", html.EscapeString("MB on disk over seconds; grey: live. "+command))
	for i, label := range p.labels() {
		fmt.Fprintf(&b, `<text x="%d" y="32" fill="%s">%s</text>`+"\n", 10+110*i, lineColors[i%len(lineColors)], html.EscapeString(label))
	}
	for i := range p.panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%panelsAcross*panelWidth, headHeight+i/panelsAcross*panelHeight)
		p.panels[i].draw(&b, p.labels())
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// labels returns the labels of all panels, each once.
func (p *plot) labels() []string {
	var labels []string
	seen := map[string]bool{}
	for _, q := range p.panels {
		for _, l := range q.lines {
			if !seen[l.label] {
				seen[l.label] = true
				labels = append(labels, l.label)
			}
		}
	}
	return labels
}

// axes convert seconds and bytes to positions in the picture.
type axes struct{ seconds, bytes float64 }

func (a axes) x(at time.Duration) float64 {
	return plotLeft + at.Seconds()/a.seconds*(panelWidth-plotLeft-plotRight)
}

func (a axes) y(n int64) float64 {
	return panelHeight - plotBottom - float64(n)/a.bytes*(panelHeight-plotTop-plotBottom)
}

func (p *panel) draw(b *bytes.Buffer, labels []string) {
	fmt.Fprintf(b, `<text x="%d" y="18" font-weight="bold">%s</text>`+"\n", plotLeft, html.EscapeString(p.title))
	a := axes{seconds: 1, bytes: 1 << 20}
	for _, l := range p.lines {
		for _, q := range l.points {
			a.seconds = max(a.seconds, q.at.Seconds())
			a.bytes = max(a.bytes, float64(max(q.disk, q.live))*1.05)
		}
	}
	p.grid(b, a)
	if len(p.lines) > 0 {
		points := thinned(p.lines[0].points)
		fmt.Fprintf(b, `<path fill="#e0e0e0" d="M%.1f %.1f`, a.x(points[0].at), a.y(0))
		for _, q := range points {
			fmt.Fprintf(b, "L%.1f %.1f", a.x(q.at), a.y(q.live))
		}
		fmt.Fprintf(b, `L%.1f %.1fZ"/>`+"\n", a.x(points[len(points)-1].at), a.y(0))
	}
	for _, l := range p.lines {
		color := ""
		for i, label := range labels {
			if label == l.label {
				color = lineColors[i%len(lineColors)]
			}
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" points="`, color)
		for _, q := range thinned(l.points) {
			fmt.Fprintf(b, "%.1f,%.1f ", a.x(q.at), a.y(q.disk))
		}
		b.WriteString(`"/>` + "\n")
	}
}

// grid draws axes with a few round numbers.
func (p *panel) grid(b *bytes.Buffer, a axes) {
	mb := a.bytes / (1 << 20)
	for n := 0.0; n <= mb; n += roundStep(mb) {
		y := a.y(int64(n * (1 << 20)))
		fmt.Fprintf(b, `<path stroke="#bdbdbd" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", plotLeft, y, panelWidth-plotRight, plotLeft-5, y+4, n)
	}
	for n := 0.0; n <= a.seconds; n += roundStep(a.seconds) {
		x := a.x(time.Duration(n * float64(time.Second)))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x, panelHeight-plotBottom+16, n)
	}
}

// roundStep divides a range into two to five parts.
func roundStep(most float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch parts := most / step; {
	case parts >= 5:
		return 2 * step
	case parts >= 2:
		return step
	}
	return step / 2
}

// thinned returns fewer points: of those that lie close together, the one with most disk use.
func thinned(points []point) []point {
	if len(points) <= mostPoints {
		return points
	}
	var kept []point
	for i := range mostPoints {
		part := points[i*len(points)/mostPoints : (i+1)*len(points)/mostPoints]
		most := part[0]
		for _, q := range part {
			if q.disk > most.disk {
				most = q
			}
		}
		kept = append(kept, most)
	}
	return kept
}
