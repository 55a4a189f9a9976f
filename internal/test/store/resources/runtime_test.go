package resources

import (
	"context"
	"fmt"
	"runtime/metrics"
	"testing"

	"github.com/brockdb/brock"
)

// A store changes no setting of Go's garbage collector: those are the program's. It
// bounds the memory that it takes itself.
func TestRuntimeIsLeftAlone(t *testing.T) {
	settings := func() (s [2]uint64) {
		samples := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
		metrics.Read(samples)
		for i, sample := range samples {
			s[i] = sample.Value.Uint64()
		}
		return s
	}
	before := settings()
	db, err := brock.Open(brock.Options{Dir: t.TempDir(), MemoryLimit: 4 << 20, Durability: brock.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err := db.Set(fmt.Appendf(nil, "key-%06d", i), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(context.Background()); err != nil {
		t.Error(err)
	}
	during := settings()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if after := settings(); during != before || after != before {
		t.Errorf("GOGC and GOMEMLIMIT were %d, are %d with an open store and %d after it", before, during, after)
	}
}
