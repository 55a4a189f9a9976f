package main

// firstWorkloads are done once, on stores that were opened after the load and
// that nobody has read from: what is found is in the order in which it was
// written, except for what a store sorts while it writes. Some stores make up
// for that afterwards; the workloads that follow see what came of it.
func firstWorkloads() []Workload {
	return []Workload{
		{
			Name: "firstseek", Title: "values of %d B, as seek, but as loaded: before anything was scanned",
			Figures: []Figure{{Name: "p50 us", Better: Less}, {Name: "p99 us"}, {Name: "CPU us/op", Better: Less}, {Name: "allocs/op"}},
			Kind:    First,
			Run:     runSeek,
		},
		{
			Name: "firstscan", Title: "values of %d B, as scanvalues, but as loaded; and what the store does after it until it rests",
			Figures: []Figure{
				{Name: "ns/entry", Better: Less}, {Name: "CPU ns/entry", Better: Less}, {Name: "allocs/entry"},
				{Name: "after: seconds"}, {Name: "CPU us/entry"}, {Name: "written/raw"},
			},
			Kind: First,
			Run:  runFirstScan,
		},
	}
}

func runFirstScan(c *Cell) ([]float64, error) {
	figures, err := timeScan(c, true)
	if err != nil {
		return nil, err
	}
	before := used()
	rested, err := c.Waits.rest()
	after := used()
	n, raw := float64(c.Data.Keys), float64(c.Data.RawBytes())
	return append(figures,
		max(0, rested.Sub(before.at).Seconds()),
		float64((after.cpu-before.cpu).Microseconds())/n,
		float64(after.written-before.written)/raw,
	), err
}
