package api

import (
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// The text of Metrics tells of reads, iterators and commits.
func TestMetricsString(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=2")
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for range 1000 {
			storetest.Get(txn, "a")
		}
		storetest.ShowItems(txn.All())
		return nil
	}))
	m := db.Metrics()
	assert.Equal(t, "reads", m.Reads, 1000)
	assert.Equal(t, "iterators", m.Iterators, 1)
	assert.Equal(t, "commits", m.Commits, 1)
	assert.Equal(t, "entries", m.Entries, 2)
	assert.Equal(t, "bytes", m.Bytes, 16)
	if m.ReadLatency.Count < 3 || m.CommitLatency.Count != 1 {
		t.Errorf("latencies: %v, %v", m.ReadLatency, m.CommitLatency)
	}
	for _, want := range []string{"reads                 1000\n", "commits               1\n", "committed_entries     2\n", "committed             16 B\n", "write_amplification   "} {
		if !strings.Contains(m.String(), want) {
			t.Errorf("%q is not in\n%v", want, m)
		}
	}
}
