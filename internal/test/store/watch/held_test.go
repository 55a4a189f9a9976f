package watch

import (
	"context"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// TestLargeCommitIsGivenUp: a Watch that has gone on from a large transaction to the journal holds
// nothing of the transaction: its run is removed once a compaction has replaced it.
func TestLargeCommitIsGivenUp(t *testing.T) {
	mem := vfs.NewMem()
	db := assert.Must(brock.Open(brock.Options{Dir: "store", FS: mem}))
	defer db.Close()
	start := db.NewTransaction(false)
	from := start.Position()
	start.Discard()
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: from}) {
		assert.OK(t, err)
		if c.Version == from.Version()+2 {
			break
		}
		// It is caught up, and holds what comes now.
		if c.Version == from.Version() {
			o := brock.TxnOptions{MaxMemory: 1}
			assert.OK(t, db.UpdateContext(context.Background(), o, func(txn *brock.Txn) error { return txn.Set([]byte("a"), make([]byte, 100)) }))
			assert.OK(t, db.Set([]byte("b"), nil))
		}
	}
	assert.OK(t, db.Set([]byte("c"), nil))
	assert.OK(t, db.Compact(t.Context()))
	deadline.Wait(t, "one run is left", func() bool {
		runs := 0
		for _, name := range assert.Must(mem.List("store")) {
			if strings.HasSuffix(name, ".run") {
				runs++
			}
		}
		return runs == 1
	})
}
