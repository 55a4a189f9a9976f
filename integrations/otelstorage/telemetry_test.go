package otelstorage

import (
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// collectMetrics returns the value of each metric of the extension, and checks its attribute.
func collectMetrics(t *testing.T, reader metric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			var points []metricdata.DataPoint[float64]
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				points = data.DataPoints
			case metricdata.Sum[float64]:
				points = data.DataPoints
			}
			if len(points) != 1 || m.Description == "" {
				t.Fatalf("%s has %d points and the description %q", m.Name, len(points), m.Description)
			}
			if id, _ := points[0].Attributes.Value(attribute.Key("storage")); id.AsString() != "brock_storage" {
				t.Fatalf("%s is of %q", m.Name, id.AsString())
			}
			got[m.Name] = points[0].Value
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	set := nopSettings()
	set.ID = component.MustNewID(typeName)
	set.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	s := newExtension(set, testConfig(t.TempDir(), func(c *Config) { c.DiskLimitMiB = 1024 }))
	if err := s.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	c := getClient(t, s, "logs")
	before := collectMetrics(t, reader)
	for range 10 {
		if err := c.Set(t.Context(), "key", make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	after := collectMetrics(t, reader)
	for name, least := range map[string]float64{
		"brock.commits": 10, "brock.committed": 10_000, "brock.segment": 0, "brock.run": 0, "brock.live": 0, "brock.memory": 0,
		"brock.disk_free": -1 << 20, "brock.disk_reserve": -1 << 20, "brock.refused_commits": 0, "brock.refused_writes": 0,
		"brock.stall": 0, "brock.stopped": 0,
	} {
		if value, ok := after[name]; !ok || value-before[name] < least {
			t.Errorf("%s is %v, there: %t, and was %v", name, value, ok, before[name])
		}
		delete(after, name)
	}
	if len(after) > 0 {
		t.Errorf("more metrics: %v", after)
	}
	shutdown(t, s)
	if got := collectMetrics(t, reader); len(got) > 0 {
		t.Errorf("metrics after Shutdown: %v", got)
	}
}
