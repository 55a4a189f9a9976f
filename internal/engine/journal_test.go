package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// Work that ends records how far the journal is durable, also in the segment
// that is being written. When more was appended to it meanwhile, and not synced,
// the next record must not take the first one back.
func TestDurableEndOfAGrowingSegment(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	for i := range 6 {
		s.must(s.commit(false, set(fmt.Sprint("run", i), []byte("x"))))
		s.flush()
	}
	for i, sync := range []bool{true, false, true, false} {
		s.must(s.commit(sync, set(fmt.Sprint("journal", i), []byte("x"))))
		runs := s.engine.views.Current().Layout.Runs()
		if err := s.engine.Work.compactor.carryOut(context.Background(), &policy.Compaction{Runs: []layout.RunID{runs[0].ID, runs[1].ID}, Reason: "test"}); err != nil {
			t.Fatalf("merge %d: %v", i, err)
		}
	}
	s.flush()
	if problems := s.check(); problems != "" {
		t.Error(problems)
	}
}
