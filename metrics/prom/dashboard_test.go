package prom

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// dashboard is what the test looks at.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Panels []struct {
		ID                 int
		Title, Description string
		GridPos            struct{ X, Y, W, H int }
		FieldConfig        struct {
			Defaults struct{ Unit string }
		}
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
}

var (
	metricName = regexp.MustCompile(`brock_[a-z0-9_]+`)
	variable   = regexp.MustCompile(`\$(\w+)`)
)

// kinds returns the names of all series that the collector serves, each with "counter" or
// "gauge".
func kinds() map[string]string {
	known := make(map[string]string)
	var m brock.Metrics
	m.Each(func(name, unit, _ string, kind brock.MetricKind, _ float64) {
		known[Name(name, unit, kind)] = map[brock.MetricKind]string{brock.CounterMetric: "counter", brock.GaugeMetric: "gauge"}[kind]
	})
	m.EachHistogram(func(name, unit, _ string, _ *brock.Histogram) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			known[Name(name, unit, brock.GaugeMetric)+suffix] = "counter"
		}
	})
	return known
}

// TestDashboardNames holds each expression against what the collector has: a metric that
// is renamed or misspelt would leave an empty panel.
func TestDashboardNames(t *testing.T) {
	known := kinds()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		for _, name := range metricName.FindAllString(v.Definition, -1) {
			if known[name] == "" {
				t.Errorf("variable %s: there is no %s", v.Name, name)
			}
		}
	}
	taken := make(map[[2]int]string)
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || ids[p.ID] {
			t.Errorf("panel %d, %q: no title, description, unit or target, or its id is another's", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies upon %s, or beside the page", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			names := metricName.FindAllString(target.Expr, -1)
			if len(names) != 1 || strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") || target.LegendFormat == "" {
				t.Errorf("%s: %s", p.Title, target.Expr)
				continue
			}
			kind := known[names[0]]
			if rated := strings.Contains(target.Expr, "rate("+names[0]); kind == "" || rated && kind != "counter" {
				t.Errorf("%s: %s is a %q in %s", p.Title, names[0], kind, target.Expr)
			}
			for _, v := range variable.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("%s: no variable %s", p.Title, v[1])
				}
			}
		}
	}
	if len(d.Panels) < 10 {
		t.Errorf("%d panels", len(d.Panels))
	}
}
