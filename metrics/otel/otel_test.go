package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/brockdb/brock"
)

// collect has the points of all metrics, by name.
func collect(t *testing.T, reader sdk.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			got[m.Name] = m
		}
	}
	return got
}

func points(m metricdata.Metrics) []metricdata.DataPoint[float64] {
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		if data.IsMonotonic && data.Temporality == metricdata.CumulativeTemporality {
			return data.DataPoints
		}
	case metricdata.Gauge[float64]:
		return data.DataPoints
	}
	return nil
}

// TestRegister collects from a store that works: every metric is there, with its value.
func TestRegister(t *testing.T) {
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
	m := db.Metrics()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	store := attribute.String("store", "s")
	registration, err := Register(provider.Meter("test"), func() brock.Metrics { return m }, store)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, reader)
	n := 0
	expect := func(name, unit, help string, counter bool, v float64) {
		t.Helper()
		n++
		one := got["brock."+name]
		p := points(one)
		_, sum := one.Data.(metricdata.Sum[float64])
		if one.Unit != unit || one.Description != help || len(p) != 1 || p[0].Value != v || sum != counter || !p[0].Attributes.HasValue("store") {
			t.Errorf("%s: %+v, want %v", name, one, v)
		}
	}
	m.Each(func(name, unit, help string, kind brock.MetricKind, v float64) {
		expect(name, unit, help, kind == brock.CounterMetric, v)
	})
	m.EachHistogram(func(name, unit, help string, h *brock.Histogram) {
		expect(name+".count", "", help, true, float64(h.Count))
		expect(name+".sum", unit, help, true, h.Sum.Seconds())
		n++
		p := points(got["brock."+name+".bucket"])
		if len(p) != lastBucket-firstBucket+2 {
			t.Errorf("%s has %d buckets", name, len(p))
		}
		for _, b := range p {
			if le, _ := b.Attributes.Value("le"); le.AsString() == "+Inf" && b.Value != float64(h.Count) {
				t.Errorf("%s: the last bucket has %v of %d", name, b.Value, h.Count)
			}
		}
	})
	if n != len(got) {
		t.Errorf("%d metrics, want %d", len(got), n)
	}
	if p := points(got["brock.commits"]); p[0].Value != 50 {
		t.Errorf("%v commits", p[0].Value)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	for name, m := range collect(t, reader) {
		if len(points(m)) > 0 {
			t.Errorf("%s is still observed", name)
		}
	}
}

// TestStoresBesideEachOther: attributes keep them apart.
func TestStoresBesideEachOther(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
	for i, name := range []string{"a", "b"} {
		var m brock.Metrics
		m.Reads = int64(i) + 1
		m.ReadLatency.Count, m.ReadLatency.Buckets[9] = 3, 3
		m.Tree.StallTime = time.Minute
		if _, err := Register(meter, func() brock.Metrics { return m }, attribute.String("store", name)); err != nil {
			t.Fatal(err)
		}
	}
	got := collect(t, reader)
	p := points(got["brock.reads"])
	if len(p) != 2 || p[0].Value+p[1].Value != 3 {
		t.Errorf("%+v", p)
	}
	if p := points(got["brock.stall"]); len(p) != 2 || p[0].Value != 60 {
		t.Errorf("%+v", p)
	}
	var shorter float64
	for _, b := range points(got["brock.read_latency.bucket"]) {
		if le, _ := b.Attributes.Value("le"); le.AsString() == "2.56e-07" {
			shorter += b.Value
		} else if b.Value != 3 {
			t.Errorf("%+v", b)
		}
	}
	if shorter != 0 {
		t.Errorf("%v durations of 256 ns and more are shorter than that", shorter)
	}
}

// refusing is a meter that makes no gauges.
type refusing struct{ noop.Meter }

var errRefused = errors.New("refused")

func (refusing) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errRefused
}

func TestRegisterFails(t *testing.T) {
	if _, err := Register(refusing{}, func() (m brock.Metrics) { return m }); !errors.Is(err, errRefused) {
		t.Error(err)
	}
}

func ExampleRegister() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	reader := sdk.NewManualReader() // in a program, one that exports
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	registration, err := Register(provider.Meter("github.com/brockdb/brock"), db.Metrics, attribute.String("store", "orders"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = registration.Unregister() }()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if strings.HasSuffix(m.Name, ".journal") {
			fmt.Println(m.Name, m.Unit, m.Description)
		}
	}
	// Output: brock.journal By Written to the journal.
}
