// Package otel gives the metrics of a Brock store to OpenTelemetry.
//
//	db, err := brock.Open(brock.Options{Dir: dir})
//	...
//	registration, err := otel.Register(provider.Meter("github.com/brockdb/brock"), db.Metrics)
//	...
//	defer registration.Unregister() // before the store is closed
//
// A program with several stores gives each an attribute:
//
//	otel.Register(meter, orders.Metrics, attribute.String("store", "orders"))
//	otel.Register(meter, users.Metrics, attribute.String("store", "users"))
//
// A metric has the name that docs/metrics.md of the main module lists, with "brock." before
// it, as in brock.journal with the unit By. All instruments are observable: the store is asked
// when metrics are collected, and nothing is done in between.
//
// OpenTelemetry has no observable histogram. One of the store is three counters: its name and
// .count, its name and .sum, in seconds, and its name and .bucket. The attribute le of the last
// is an upper bound in seconds, and its value the number of durations up to it. Bounds go from
// 256 ns to 17 s, and +Inf. These are the series of a Prometheus histogram.
package otel

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/brockdb/brock"
)

// The buckets that are passed on. The i-th bucket of a brock.Histogram ends at 2^i ns.
const (
	firstBucket = 8  // 256 ns
	lastBucket  = 34 // 17 s
)

// instruments are those of a store, by the name that they have.
type instruments struct {
	metrics    func() brock.Metrics
	observable map[string]metric.Float64Observable
	attributes metric.MeasurementOption
	buckets    []metric.MeasurementOption // with the attribute le; the last is +Inf
}

// Register makes an instrument of the meter for each metric of what metrics returns, which is
// DB.Metrics. It is called once for each collection. The attributes are those of all
// observations. Unregister ends it.
func Register(meter metric.Meter, metrics func() brock.Metrics, attributes ...attribute.KeyValue) (metric.Registration, error) {
	i := &instruments{metrics: metrics, observable: make(map[string]metric.Float64Observable),
		attributes: metric.WithAttributes(attributes...)}
	for b := firstBucket; b <= lastBucket; b++ {
		i.bound(strconv.FormatFloat(float64(int64(1)<<b)/1e9, 'g', -1, 64), attributes)
	}
	i.bound("+Inf", attributes)
	var failure error
	add := func(name, unit, help string, kind brock.MetricKind) {
		// The first error stays. Each can't be left early.
		if failure == nil {
			failure = i.add(meter, name, unit, help, kind)
		}
	}
	var m brock.Metrics
	m.Each(func(name, unit, help string, kind brock.MetricKind, _ float64) { add(name, unit, help, kind) })
	m.EachHistogram(func(name, unit, help string, _ *brock.Histogram) {
		// Counters: all three only grow, and a rate of them is a rate of the histogram.
		add(name+".count", "", help, brock.CounterMetric)
		add(name+".sum", unit, help, brock.CounterMetric)
		add(name+".bucket", "", help, brock.CounterMetric)
	})
	if failure != nil {
		return nil, failure
	}
	all := make([]metric.Observable, 0, len(i.observable))
	for _, o := range i.observable {
		all = append(all, o)
	}
	// One callback for all, so that the values of a collection are of one moment.
	return meter.RegisterCallback(i.observe, all...)
}

func (i *instruments) bound(le string, attributes []attribute.KeyValue) {
	// Cut to its length: the sets of all bounds would share one array, and each overwrite the last.
	set := append(attributes[:len(attributes):len(attributes)], attribute.String("le", le))
	i.buckets = append(i.buckets, metric.WithAttributes(set...))
}

func (i *instruments) add(meter metric.Meter, name, unit, help string, kind brock.MetricKind) (err error) {
	full := "brock." + name
	if kind == brock.CounterMetric {
		i.observable[name], err = meter.Float64ObservableCounter(full, metric.WithUnit(unit), metric.WithDescription(help))
	} else {
		i.observable[name], err = meter.Float64ObservableGauge(full, metric.WithUnit(unit), metric.WithDescription(help))
	}
	return err
}

// observe is called for each collection.
func (i *instruments) observe(_ context.Context, o metric.Observer) error {
	m := i.metrics()
	m.Each(func(name, _, _ string, _ brock.MetricKind, v float64) {
		o.ObserveFloat64(i.observable[name], v, i.attributes)
	})
	m.EachHistogram(func(name, _, _ string, h *brock.Histogram) {
		o.ObserveFloat64(i.observable[name+".count"], float64(h.Count), i.attributes)
		o.ObserveFloat64(i.observable[name+".sum"], h.Sum.Seconds(), i.attributes)
		bucket := i.observable[name+".bucket"]
		var n int64
		for b := 0; b <= lastBucket; b++ {
			// Each bucket counts the ones below it too, as le says.
			n += h.Buckets[b]
			if b >= firstBucket {
				o.ObserveFloat64(bucket, float64(n), i.buckets[b-firstBucket])
			}
		}
		// Not n: durations above the last bound count only here.
		o.ObserveFloat64(bucket, float64(h.Count), i.buckets[len(i.buckets)-1])
	})
	return nil
}
