package resources

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Large Sets use the same memory again, which the metrics know of, and never that of one
// another.
func TestLargeSetsShareMemory(t *testing.T) {
	db := storetest.Open(t, brock.Options{Dir: t.TempDir(), Durability: brock.Buffered})
	value := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), (2932<<10+i*1000)/8) }
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	check := func(i int) {
		if got, err := db.Get(key(i)); err != nil || !bytes.Equal(got, value(i)) {
			t.Errorf("value %d: %d bytes, %v", i, len(got), err)
		}
	}
	const n = 8
	atOnce(n, func(i int) { assert.OK(t, db.Set(key(i), value(i))) })
	for i := range n {
		check(i)
	}
	if kept := db.Metrics().Tree.Memory.Pending; kept < 2932<<10 || kept > 8<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	v := value(1)
	least := uint64(math.MaxUint64)
	for range 5 { // work in the background allocates, too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			assert.OK(t, db.Set(key(1), v))
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	check(1)
	// Each would allocate its length otherwise.
	if least > n/2*uint64(len(v)) && !invariant.Enabled {
		t.Errorf("%d sets of %d bytes allocated %d", n, len(v), least)
	}
	// What has no room goes to a file, and small ones have their own memory.
	assert.OK(t, db.Set(key(2), bytes.Repeat(v, 12)))
	assert.OK(t, db.Set(key(3), []byte("small")))
	if got, err := db.Get(key(3)); err != nil || string(got) != "small" {
		t.Errorf("small value: %q, %v", got, err)
	}
	if kept := db.Metrics().Tree.Memory.Pending; kept > 8<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
}
