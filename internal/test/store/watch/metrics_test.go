package watch

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestMetrics: each metric of the change feed moves, and goes back.
func TestMetrics(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	o := options(vfs.NewMem())
	o.Now = func() time.Time { return time.Unix(0, now.Load()) }
	o.KeyspaceDefaults, o.FeedRetention = brock.KeyspaceOptions{}, brock.FeedRetention{Age: time.Hour}
	db := storetest.Open(t, o)
	storetest.Set(t, db, "k=0")
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	write := func() {
		for i := range 10 {
			assert.OK(t, db.Set([]byte("k"), storetest.RandomBytes(i, 20_000)))
		}
	}
	tree := func() brock.TreeMetrics { return db.Metrics().Tree }
	if m := tree(); m.Watches != 0 || m.WatchBehind != 0 || m.WatchUnreadBytes != 0 || m.FeedBytes != 0 || m.FeedAge != 0 || m.WatchesRefused != 0 {
		t.Errorf("at first %+v", m)
	}
	n := 0
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: rep.at}) {
		assert.OK(t, err)
		if n++; n == 1 {
			write() // in the journal
			if m := tree(); m.Watches != 1 || m.WatchBehind != 10 || m.WatchUnreadBytes < 200_000 || m.WatchUnreadBytes > 250_000 {
				t.Errorf("behind in the journal: %d Watches, %d commits, %d bytes", m.Watches, m.WatchBehind, m.WatchUnreadBytes)
			}
			assert.OK(t, db.Flush(t.Context()))
			now.Add(int64(10 * time.Minute))
			if m := tree(); m.WatchBehind != 10 || m.WatchUnreadBytes < 200_000 || m.FeedBytes < 200_000 || m.FeedAge.Round(time.Second) != 10*time.Minute {
				t.Errorf("behind in the history: %d commits, %d bytes of %d, %v", m.WatchBehind, m.WatchUnreadBytes, m.FeedBytes, m.FeedAge)
			}
		}
		if c.Version == 6 {
			if m := tree(); m.WatchBehind != 5 || m.WatchUnreadBytes > 120_000 {
				t.Errorf("in the middle: %d commits, %d bytes", m.WatchBehind, m.WatchUnreadBytes)
			}
		}
		if c.Version == 11 {
			if m := tree(); m.WatchBehind != 0 || m.WatchUnreadBytes != 0 {
				t.Errorf("at the end: %d commits, %d bytes", m.WatchBehind, m.WatchUnreadBytes)
			}
			break
		}
	}
	now.Add(int64(2 * time.Hour))
	write()
	assert.OK(t, db.Flush(t.Context()))
	refused(t, "what is too old", db, brock.WatchOptions{After: rep.at}, brock.ErrVersionGone)
	if m := tree(); m.Watches != 0 || m.WatchBehind != 0 || m.WatchesRefused != 1 {
		t.Errorf("%d Watches, %d behind, %d refused", m.Watches, m.WatchBehind, m.WatchesRefused)
	}
}
