package store

import (
	"testing"

	"github.com/brockdb/brock"
)

// Values of 1 MB and more are separated even where the threshold says never.
func TestHugeValuesAreAlwaysSeparated(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{limit - 1, limit} {
		db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: -1}})
		must(t, db.Set(b("k"), make([]byte, size)))
		must(t, db.Compact(t.Context()))
		wantEqual(t, "inline", db.Metrics().Tree.RunBytes > limit/2, size < limit)
		v, err := db.Get(b("k"))
		must(t, err)
		wantEqual(t, "length", len(v), size)
		must(t, db.Verify(t.Context(), nil))
	}
}
