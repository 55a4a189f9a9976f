package watch

import (
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// TestPositionOfTransaction: what a transaction reads and what a Watch from its Position yields is all
// that there is, and nothing twice.
func TestPositionOfTransaction(t *testing.T) {
	db := assert.Must(brock.Open(brock.Options{Dir: "store", FS: vfs.NewMem(), FeedRetention: brock.FeedRetention{Bytes: 1 << 20}}))
	defer db.Close()
	assert.Equal(t, "position of no transaction", new(brock.Txn).Position(), brock.Position{})
	var at []brock.Position
	for _, key := range []string{"a", "b", "c"} {
		txn := db.NewTransaction(false)
		at = append(at, txn.Position())
		assert.OK(t, db.Set([]byte(key), nil))
		txn.Discard()
		assert.Equal(t, "position behind the end", txn.Position(), at[len(at)-1])
	}
	assert.OK(t, db.Flush(t.Context()))
	for i, p := range at {
		want := "abc"[i:]
		got := ""
		for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: p}) {
			assert.OK(t, err)
			for ch, err := range c.Changes() {
				assert.OK(t, err)
				got += string(ch.Key)
			}
			if c.Caught {
				break
			}
		}
		assert.Equal(t, "what was committed since", got, want)
	}
}
