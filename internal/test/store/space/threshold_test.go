package space

import (
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Values of 1 MB and more are separated even where the threshold says never.
func TestHugeValuesAreAlwaysSeparated(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{limit - 1, limit} {
		db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: -1}})
		assert.OK(t, db.Set([]byte("k"), make([]byte, size)))
		assert.OK(t, db.Compact(t.Context()))
		assert.Equal(t, "inline", db.Metrics().Tree.RunBytes > limit/2, size < limit)
		v, err := db.Get([]byte("k"))
		assert.OK(t, err)
		assert.Equal(t, "length", len(v), size)
		assert.OK(t, db.Verify(t.Context(), nil))
	}
}
