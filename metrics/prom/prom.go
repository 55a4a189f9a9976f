// Package prom gives the metrics of a Brock store to Prometheus.
//
//	db, err := brock.Open(brock.Options{Dir: dir})
//	...
//	prometheus.MustRegister(prom.NewCollector(db.Metrics, nil))
//	http.Handle("/metrics", promhttp.Handler())
//
// A program with several stores gives each a label:
//
//	prometheus.MustRegister(prom.NewCollector(orders.Metrics, prometheus.Labels{"store": "orders"}))
//	prometheus.MustRegister(prom.NewCollector(users.Metrics, prometheus.Labels{"store": "users"}))
//
// A metric has the name that docs/metrics.md of the main module lists, with brock_ before
// it, and its unit and _total for a counter behind it: brock_journal_bytes_total, brock_runs,
// brock_stall_seconds_total. Histograms have the buckets of brock.Histogram from 256 ns to
// 17 s, as in brock_commit_latency_seconds_bucket.
//
// The directory has a dashboard for Grafana: dashboard.json. Import it and choose the data
// source.
package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/brockdb/brock"
)

// The buckets that are passed on. The i-th bucket of a brock.Histogram ends at 2^i ns.
const (
	firstBucket = 8  // 256 ns
	lastBucket  = 34 // 17 s
)

// collector asks the store at each scrape.
type collector struct {
	metrics func() brock.Metrics
	descs   map[string]*prometheus.Desc // by the name in brock
}

// NewCollector returns a collector of what metrics returns, which is DB.Metrics. It calls
// metrics once for each scrape. Labels are those of all metrics; nil is none. Any number of
// goroutines may use the collector. After the store is closed, it has zeros for what the
// files hold.
func NewCollector(metrics func() brock.Metrics, labels prometheus.Labels) prometheus.Collector {
	c := &collector{metrics: metrics, descs: make(map[string]*prometheus.Desc)}
	// The zero value has all names, so no store is asked before the first scrape.
	var m brock.Metrics
	m.Each(func(name, unit, help string, kind brock.MetricKind, _ float64) {
		c.descs[name] = prometheus.NewDesc(Name(name, unit, kind), help, nil, labels)
	})
	m.EachHistogram(func(name, unit, help string, _ *brock.Histogram) {
		c.descs[name] = prometheus.NewDesc(Name(name, unit, brock.GaugeMetric), help, nil, labels)
	})
	return c
}

// Name returns the name of a metric in Prometheus; a histogram is named as a gauge.
func Name(name, unit string, kind brock.MetricKind) string {
	name = "brock_" + name + map[string]string{"By": "_bytes", "s": "_seconds"}[unit]
	// Behind the unit, as OpenMetrics has it.
	if kind == brock.CounterMetric {
		name += "_total"
	}
	return name
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	// Once, so that all values of a scrape are of one moment.
	m := c.metrics()
	m.Each(func(name, _, _ string, kind brock.MetricKind, v float64) {
		t := prometheus.GaugeValue
		if kind == brock.CounterMetric {
			t = prometheus.CounterValue
		}
		// It can't panic: a name that Each passes on now was in the zero value, too.
		out <- prometheus.MustNewConstMetric(c.descs[name], t, v)
	})
	m.EachHistogram(func(name, _, _ string, h *brock.Histogram) {
		out <- prometheus.MustNewConstHistogram(c.descs[name], uint64(h.Count), h.Sum.Seconds(), buckets(h))
	})
}

// buckets returns how many durations were shorter than each bound, by bounds in seconds.
func buckets(h *brock.Histogram) map[float64]uint64 {
	counts := make(map[float64]uint64)
	var n uint64
	for i := 0; i <= lastBucket; i++ {
		// Prometheus counts from 0 up to each bound, and wants what is below the first one in it,
		// too.
		n += uint64(h.Buckets[i])
		if i >= firstBucket {
			counts[float64(int64(1)<<i)/1e9] = n
		}
	}
	return counts
}
