package salvage

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestSalvageWithFeedFiles: large transactions that only the change feed still has bring nothing back,
// with the manifest and without it, and none of their files is told to be lost.
func TestSalvageWithFeedFiles(t *testing.T) {
	mem := vfs.NewMem()
	o := salvageOptions(mem, "/old")
	o.FeedRetention.Bytes = 1 << 40
	db := assert.Must(brock.Open(o))
	load := func(from, n int) {
		l := assert.Must(db.Default().NewLoader(t.Context(), brock.LoadOptions{Sorted: true, Replace: true, MaxMemory: 1}))
		for i := range n {
			assert.OK(t, l.Set(fmt.Appendf(nil, "key %05d", from+i), storetest.RandomBytes(i, 600*(1+i%9))))
		}
		assert.Must(l.Finish())
	}
	load(0, 1000)
	assert.OK(t, db.Set([]byte("a"), nil))
	assert.OK(t, db.Flush(t.Context())) // its run tells that the first load was committed
	load(500, 1000)
	for range 3 { // no run is left that had a load before it
		assert.OK(t, db.Set(nil, []byte("last")))
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.Compact(t.Context()))
	}
	want := storetest.ShowContents(t, db)
	if db.Metrics().Tree.FeedBytes < 1<<20 {
		t.Error("the feed has no large transactions")
	}
	assert.OK(t, db.Close())
	for _, lost := range []bool{false, true} {
		if lost {
			for _, name := range assert.Must(mem.List("/old")) {
				if name == "SUPER" || name[0] == 'M' {
					assert.OK(t, mem.Remove("/old/"+name))
				}
			}
		}
		to := salvageOptions(mem, fmt.Sprint("/lost ", lost))
		sum := assert.Must(brock.Salvage(t.Context(), o, to, func(c *brock.CorruptionError) { t.Log(c) }))
		// SUPER, MANIFEST, and that deleted keys may be back.
		if losses := map[bool]int{false: 0, true: 3}[lost]; sum.Losses != losses {
			t.Errorf("lost %v: %d losses, want %d", lost, sum.Losses, losses)
		}
		assert.SameText(t, fmt.Sprint("salvaged, lost ", lost), storetest.ShowContents(t, storetest.OpenExisting(t, to)), want)
	}
}
