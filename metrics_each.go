package brock

import (
	"reflect"
	"time"
)

// MetricKind says how the value of a metric moves.
type MetricKind uint8

// The kinds of metrics.
const (
	CounterMetric MetricKind = 1 // begins at 0 at Open, and only grows
	GaugeMetric   MetricKind = 2 // goes up and down
)

// Each calls fn with each metric but the histograms: all fields of m as numbers, and what
// follows from them, for those who pass metrics on. Calls come in the same order each time.
//
// A name has small letters and underscores. Names, units and kinds stay as they are in later
// releases, which may add some; docs/metrics.md lists them. The unit is "By" for bytes, "s"
// for seconds, and "" for a number, as in OpenTelemetry. help is one sentence.
//
// Text becomes a number: waiting_work and pinned are 1 while WorkWaiting and PinnedBy say
// something, else 0. A time is in seconds since 1970, 0 for none. A nil fn is not called.
func (m *Metrics) Each(fn func(name, unit, help string, kind MetricKind, v float64)) {
	if fn == nil {
		return
	}
	m.eachField(func(f field) {
		if f.kind != 0 {
			fn(f.name, f.unit, f.help, f.kind, f.asNumber())
		}
	})
}

// EachHistogram calls fn with each histogram. Names and units are as for Each. h belongs to
// m.
func (m *Metrics) EachHistogram(fn func(name, unit, help string, h *Histogram)) {
	if fn == nil {
		return
	}
	m.eachField(func(f field) {
		if h, ok := f.value.Addr().Interface().(*Histogram); ok {
			fn(f.name, f.unit, f.help, h)
		}
	})
}

// derived are metrics that follow from others.
type derived struct {
	Memory   int64   `gauge:"memory" unit:"By" help:"Memory that Options.MemoryLimit bounds."`
	WriteAmp float64 `gauge:"write_amplification" help:"Bytes written to files per byte of the records committed, since Open."`
	SpaceAmp float64 `gauge:"space_amplification" help:"Bytes in files per byte that entries still need."`
}

// field is a field of Metrics or of structs in it, with what its tag says.
type field struct {
	name, unit, help string
	kind             MetricKind // 0: a histogram
	value            reflect.Value
}

// eachField calls fn with each field, and then with what follows from them.
func (m *Metrics) eachField(fn func(field)) {
	eachFieldOf(reflect.ValueOf(m).Elem(), fn)
	eachFieldOf(reflect.ValueOf(&derived{m.MemoryBytes(), m.WriteAmp(), m.SpaceAmp()}).Elem(), fn)
}

// eachFieldOf calls fn with each field of a struct, and of structs in it that have no tag.
func eachFieldOf(s reflect.Value, fn func(field)) {
	for i := range s.NumField() {
		tag := s.Type().Field(i).Tag
		if tag == "" {
			// Only structs, such as Tree and its Memory, have no tag.
			eachFieldOf(s.Field(i), fn)
			continue
		}
		f := field{unit: tag.Get("unit"), help: tag.Get("help"), value: s.Field(i)}
		for kind, key := range []string{"histogram", CounterMetric: "counter", GaugeMetric: "gauge"} {
			if name, ok := tag.Lookup(key); ok {
				f.name, f.kind = name, MetricKind(kind)
			}
		}
		fn(f)
	}
}

// asNumber returns f as it is passed on.
func (f *field) asNumber() float64 {
	// A zero time would be far below 1970 otherwise, and not the 0 that Each promises.
	if f.value.IsZero() {
		return 0
	}
	switch v := f.value.Interface().(type) {
	case time.Duration:
		return v.Seconds()
	case time.Time:
		return float64(v.UnixMilli()) / 1e3
	case bool, string:
		return 1
	}
	return f.value.Convert(reflect.TypeFor[float64]()).Float()
}
