package otelstorage

import (
	"context"

	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/brockdb/brock"
)

// scope is the name of the meter.
const scope = "github.com/brockdb/brock/integrations/otelstorage"

// gauges and counters are the metrics of a store that a dashboard of a collector needs. Names are
// those of package metrics/otel, which has all metrics of a store.
var (
	reported = map[string]bool{
		"run": true, "segment": true, "live": true, "disk_free": true, "disk_reserve": true,
		"commits": true, "committed": true, "refused_commits": true, "stall": true, "stopped": true,
	}
	memoryName  = "memory"
	refusedName = "refused_writes"
)

// registerMetrics makes the instruments of the extension, which ask the store whenever metrics are
// collected. Each value has the id of the extension as attribute storage.
func registerMetrics(set extension.Settings, db *brock.DB, room *room) (metric.Registration, error) {
	meter := set.MeterProvider.Meter(scope)
	instruments := make(map[string]metric.Float64Observable)
	var failure error
	add := func(name, unit, help string, kind brock.MetricKind) {
		var err error
		options := []metric.InstrumentOption{metric.WithUnit(unit), metric.WithDescription(help)}
		full := "brock." + name
		if kind == brock.CounterMetric {
			instruments[name], err = meter.Float64ObservableCounter(full, counterOptions(options)...)
		} else {
			instruments[name], err = meter.Float64ObservableGauge(full, gaugeOptions(options)...)
		}
		if failure == nil {
			failure = err
		}
	}
	var zero brock.Metrics
	zero.Each(func(name, unit, help string, kind brock.MetricKind, _ float64) {
		if reported[name] {
			add(name, unit, help, kind)
		}
	})
	add(memoryName, "By", "Memory that memory_limit_mib bounds.", brock.GaugeMetric)
	add(refusedName, "", "Writes refused to keep room for overwrites and deletes.", brock.CounterMetric)
	if failure != nil {
		return nil, failure
	}
	observables := make([]metric.Observable, 0, len(instruments))
	for _, i := range instruments {
		observables = append(observables, i)
	}
	id := metric.WithAttributes(attribute.String("storage", set.ID.String()))
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m := db.Metrics()
		m.Each(func(name, _, _ string, _ brock.MetricKind, v float64) {
			if reported[name] {
				o.ObserveFloat64(instruments[name], v, id)
			}
		})
		o.ObserveFloat64(instruments[memoryName], float64(m.MemoryBytes()), id)
		o.ObserveFloat64(instruments[refusedName], float64(room.refused.Load()), id)
		return nil
	}, observables...)
}

func counterOptions(options []metric.InstrumentOption) (out []metric.Float64ObservableCounterOption) {
	for _, o := range options {
		out = append(out, o)
	}
	return out
}

func gaugeOptions(options []metric.InstrumentOption) (out []metric.Float64ObservableGaugeOption) {
	for _, o := range options {
		out = append(out, o)
	}
	return out
}
