package prom_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/metrics/prom"
)

func ExampleNewCollector() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(db.Metrics, prometheus.Labels{"store": "orders"}))

	if err := db.Set([]byte("order/1"), []byte("two apples")); err != nil {
		panic(err)
	}
	families, err := registry.Gather() // as promhttp.HandlerFor does for each scrape
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "brock_commits_total" {
			fmt.Println(f.GetHelp(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: Transactions, batches and writer groups written. 1
}
