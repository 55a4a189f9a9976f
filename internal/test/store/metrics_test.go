package store

import (
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// The text of Metrics tells of reads, iterators and commits.
func TestMetricsString(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1", "b=2")
	must(t, db.View(func(txn *brock.Txn) error {
		for range 1000 {
			get(txn, "a")
		}
		show(txn.All())
		return nil
	}))
	m := db.Metrics()
	wantEqual(t, "reads", m.Reads, 1000)
	wantEqual(t, "iterators", m.Iterators, 1)
	wantEqual(t, "commits", m.Commits, 1)
	wantEqual(t, "entries", m.Entries, 2)
	wantEqual(t, "bytes", m.Bytes, 16)
	if m.ReadLatency.Count < 3 || m.CommitLatency.Count != 1 {
		t.Errorf("latencies: %v, %v", m.ReadLatency, m.CommitLatency)
	}
	for _, want := range []string{"reads       1000", "commits     1 with 2 entries, 16 B", "amplified"} {
		if !strings.Contains(m.String(), want) {
			t.Errorf("%q is not in\n%v", want, m)
		}
	}
}
