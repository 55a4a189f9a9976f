package prom

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/brockdb/brock"
)

// TestCollector scrapes a store that works: every metric is there, with its value.
func TestCollector(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 50 {
		if err := db.Set(fmt.Appendf(nil, "%02d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry() // checks what is collected against what was described
	registry.MustRegister(NewCollector(db.Metrics, prometheus.Labels{"store": "s"}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		got[f.GetName()] = f
	}
	n := 0
	m := db.Metrics()
	m.Each(func(name, unit, help string, kind brock.MetricKind, v float64) {
		n++
		f := got[Name(name, unit, kind)]
		if f == nil || f.GetHelp() != help || len(f.GetMetric()) != 1 {
			t.Errorf("%s: %v", name, f)
			return
		}
		one := f.GetMetric()[0]
		if label := one.GetLabel(); len(label) != 1 || label[0].GetName() != "store" || label[0].GetValue() != "s" {
			t.Errorf("%s has labels %v", name, label)
		}
		value := one.GetGauge().GetValue()
		if kind == brock.CounterMetric {
			value = one.GetCounter().GetValue()
		}
		if v >= 0 && name != "dropped_events" && math.Abs(value-v) > v/10 && !strings.HasPrefix(name, "memory") && !strings.HasPrefix(name, "disk") {
			t.Errorf("%s is %v, want %v", name, value, v)
		}
	})
	m.EachHistogram(func(name, unit, _ string, h *brock.Histogram) {
		n++
		f := got[Name(name, unit, brock.GaugeMetric)]
		if f == nil || f.GetMetric()[0].GetHistogram().GetSampleCount() != uint64(h.Count) {
			t.Errorf("%s: %v, want %d", name, f, h.Count)
		}
	})
	if n != len(got) {
		t.Errorf("%d metrics, want %d", len(got), n)
	}
	if v := got["brock_commits_total"].GetMetric()[0].GetCounter().GetValue(); v != 50 {
		t.Errorf("%v commits", v)
	}
}

// TestStoresBesideEachOther: labels keep them apart, and without them the second is refused.
func TestStoresBesideEachOther(t *testing.T) {
	none := func() (m brock.Metrics) { return m }
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(none, prometheus.Labels{"store": "a"}), NewCollector(none, prometheus.Labels{"store": "b"}))
	if err := registry.Register(NewCollector(none, prometheus.Labels{"store": "a"})); err == nil {
		t.Error("the same store was registered twice")
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestBuckets(t *testing.T) {
	var h brock.Histogram
	for i := range h.Buckets {
		h.Buckets[i] = 1
		h.Count++
	}
	b := buckets(&h)
	if len(b) != lastBucket-firstBucket+1 || b[256e-9] != 9 || b[float64(1<<34)/1e9] != 35 {
		t.Errorf("%v", b)
	}
	// Names of all kinds.
	for got, want := range map[string]string{
		Name("runs", "", brock.GaugeMetric):     "brock_runs",
		Name("stall", "s", brock.CounterMetric): "brock_stall_seconds_total",
		Name("live", "By", brock.GaugeMetric):   "brock_live_bytes",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if at := time.Duration(1) << firstBucket; at != 256*time.Nanosecond {
		t.Error(at)
	}
}
