package api

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// values are what Each and EachHistogram say of m, by name.
func values(m *brock.Metrics) map[string]string {
	all := make(map[string]string)
	m.Each(func(name, _, _ string, _ brock.MetricKind, v float64) { all[name] = fmt.Sprint(v) })
	m.EachHistogram(func(name, _, _ string, h *brock.Histogram) { all[name] = fmt.Sprint(*h) })
	return all
}

// leaves calls fn with each field of v that has no fields of its own.
func leaves(path string, v reflect.Value, fn func(path string, v reflect.Value)) {
	switch v.Interface().(type) {
	case time.Time, brock.Histogram:
		fn(path, v)
		return
	}
	if v.Kind() != reflect.Struct {
		fn(path, v)
		return
	}
	for i := range v.NumField() {
		leaves(path+"."+v.Type().Field(i).Name, v.Field(i), fn)
	}
}

// TestEachHasEveryField: a field of Metrics that is added later must be passed on, too.
func TestEachHasEveryField(t *testing.T) {
	var m brock.Metrics
	before := values(&m)
	derived := []string{"memory", "write_amplification", "space_amplification"}
	told := make(map[string]string) // by name, the field
	leaves("Metrics", reflect.ValueOf(&m).Elem(), func(path string, v reflect.Value) {
		old := reflect.ValueOf(v.Interface())
		switch p := v.Addr().Interface().(type) {
		case *time.Time:
			*p = time.UnixMilli(7000)
		case *brock.Histogram:
			p.Count = 7
		case *time.Duration:
			*p = 7 * time.Second
		case *string:
			*p = "7"
		case *uint64:
			*p = 7
		case *int64:
			*p = 7
		case *int:
			*p = 7
		case *bool:
			*p = true
		default:
			t.Fatalf("%s is a %s", path, v.Type())
		}
		var changed []string
		for name, value := range values(&m) {
			if value != before[name] && !slices.Contains(derived, name) {
				changed = append(changed, name)
				want := "7"
				if v.Kind() == reflect.Bool {
					want = "1"
				}
				if v.Kind() != reflect.String && v.Type() != reflect.TypeFor[brock.Histogram]() && value != want {
					t.Errorf("%s is %s, and %s is %s", path, want, name, value)
				}
			}
		}
		if len(changed) != 1 {
			t.Errorf("%s: %v tell it, want one metric", path, changed)
			return
		}
		if other := told[changed[0]]; other != "" {
			t.Errorf("%s tells both %s and %s", changed[0], path, other)
		}
		told[changed[0]] = path
		v.Set(old)
	})
	if len(told)+len(derived) != len(before) {
		t.Errorf("%d metrics, of %d fields and %v", len(before), len(told), derived)
	}
}

var update = flag.Bool("update", false, "write the list in docs/metrics.md anew")

// TestMetricNamesAreStable holds the metrics against the list that users rely on: name, unit and
// kind in a line of it never change. With -update it writes the list.
func TestMetricNamesAreStable(t *testing.T) {
	const document = "../../../../docs/metrics.md"
	list, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	add := func(name, unit, help, kind string) {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(name) || !slices.Contains([]string{"", "By", "s"}, unit) ||
			!strings.HasSuffix(help, ".") || strings.Contains(help, "|") {
			t.Errorf("%s, unit %q: %q", name, unit, help)
		}
		if unit != "" {
			kind += ", " + unit
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, kind, help))
	}
	var m brock.Metrics
	m.Each(func(name, unit, help string, kind brock.MetricKind, _ float64) {
		add(name, unit, help, map[brock.MetricKind]string{brock.CounterMetric: "counter", brock.GaugeMetric: "gauge"}[kind])
	})
	m.EachHistogram(func(name, unit, help string, _ *brock.Histogram) { add(name, unit, help, "histogram") })
	listed, want := regexp.MustCompile("(?m)(^\\| `.*\n)+").FindString(string(list)), strings.Join(rows, "\n")+"\n"
	if *update {
		if err := os.WriteFile(document, []byte(strings.Replace(string(list), listed, want, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if listed != want {
		t.Errorf("docs/metrics.md lists other metrics; it must have\n%s", want)
	}
	slices.Sort(rows)
	for i := range rows[1:] {
		if name, _, _ := strings.Cut(rows[i][3:], "`"); strings.HasPrefix(rows[i+1][3:], name+"`") {
			t.Errorf("%s is there twice", name)
		}
	}
}

// TestEachOfAStore compares with the fields of a store that has worked.
func TestEachOfAStore(t *testing.T) {
	flushed := make(chan bool, 1)
	db, err := brock.Open(brock.Options{InMemory: true, Events: brock.Events{Flush: func(brock.WorkInfo) { flushed <- true }}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 100 {
		if err := db.Set(fmt.Appendf(nil, "%03d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-flushed // counted before it is told of
	m := db.Metrics()
	got := values(&m)
	for name, want := range map[string]string{"commits": "100", "committed_entries": "100", "flushes": "1", "runs": "1", "run_entries": "100", "version": "100"} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}
