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
	eachField(reflect.ValueOf(m).Elem(), func(tag reflect.StructTag, v reflect.Value) {
		if name, ok := tag.Lookup("counter"); ok {
			fn(name, tag.Get("unit"), tag.Get("help"), CounterMetric, asNumber(v))
		} else if name, ok := tag.Lookup("gauge"); ok {
			fn(name, tag.Get("unit"), tag.Get("help"), GaugeMetric, asNumber(v))
		}
	})
	fn("memory", "By", "Memory that Options.MemoryLimit bounds.", GaugeMetric, float64(m.MemoryBytes()))
	fn("write_amplification", "", "Bytes written to files per byte of the records committed, since Open.", GaugeMetric, m.WriteAmp())
	fn("space_amplification", "", "Bytes in files per byte that entries still need.", GaugeMetric, m.SpaceAmp())
}

// EachHistogram calls fn with each histogram. Names and units are as for Each. h belongs to
// m.
func (m *Metrics) EachHistogram(fn func(name, unit, help string, h *Histogram)) {
	if fn == nil {
		return
	}
	eachField(reflect.ValueOf(m).Elem(), func(tag reflect.StructTag, v reflect.Value) {
		if h, ok := v.Addr().Interface().(*Histogram); ok {
			fn(tag.Get("histogram"), tag.Get("unit"), tag.Get("help"), h)
		}
	})
}

// eachField calls fn with each field of a struct, and of structs in it that have no tag.
func eachField(s reflect.Value, fn func(tag reflect.StructTag, v reflect.Value)) {
	for i := range s.NumField() {
		if tag := s.Type().Field(i).Tag; tag != "" {
			fn(tag, s.Field(i))
		} else {
			eachField(s.Field(i), fn)
		}
	}
}

// asNumber returns the number that a field of a metric is passed on as.
func asNumber(v reflect.Value) float64 {
	switch v := v.Interface().(type) {
	case time.Duration:
		return v.Seconds()
	case time.Time:
		if v.IsZero() {
			return 0
		}
		return float64(v.UnixMilli()) / 1e3
	case bool:
		return oneIf(v)
	case string:
		return oneIf(v != "")
	}
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
