package main

import "time"

// firstWorkloads are done once, on stores that were opened after the load and
// that nobody has read from: what is found is in the order in which it was
// written, except for what a store sorts while it writes. Some stores make up
// for that afterwards; the workloads that follow see what came of it.
func firstWorkloads() []Workload {
	return []Workload{
		{
			Name: "firstseek", Title: "values of %d B, as seek, but as loaded: before anything was scanned",
			Figures: []Figure{{"p50 us", Less}, {"p99 us", Unrated}, {"CPU us/op", Less}, {"allocs/op", Unrated}},
			Kind:    First,
			Run:     runSeek,
		},
		{
			Name: "firstscan", Title: "values of %d B, as scanvalues, but as loaded; and what the store does after it until it rests",
			Figures: []Figure{
				{"ns/entry", Less}, {"CPU ns/entry", Less}, {"allocs/entry", Unrated},
				{"after: seconds", Unrated}, {"CPU us/entry", Unrated}, {"written/raw", Unrated},
			},
			Kind: First,
			Run:  runFirstScan,
		},
	}
}

func runFirstScan(c *Cell) ([]float64, error) {
	figures, err := timeScan(c, c.Store.ScanValues)
	if err != nil {
		return nil, err
	}
	before := used()
	rested, err := rest()
	after := used()
	n, raw := float64(c.Data.Keys), float64(c.Data.RawBytes())
	return append(figures,
		max(0, rested.Sub(before.at).Seconds()),
		float64((after.cpu-before.cpu).Microseconds())/n,
		float64(after.written-before.written)/raw,
	), err
}

// rest waits until open stores have done what they do once their clients are
// silent, and returns when that was.
func rest() (time.Time, error) {
	begin := time.Now()
	cpu, _ := processTimes()
	written := bytesWritten()
	time.Sleep(settleTime)
	if c, _ := processTimes(); c-cpu < settleTime/100 && bytesWritten() == written {
		return begin, nil // nothing at all
	}
	return waitIdle()
}
