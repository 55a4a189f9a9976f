package watch

import (
	"iter"
	"runtime"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// TestDroppedTogether: a Loader, a Snapshot and a Watch that nobody ends hold up neither Close nor each
// other, and leave no open file and no file in the directory.
func TestDroppedTogether(t *testing.T) {
	dir := t.TempDir() + "/db"
	o := options(nil)
	o.Dir, o.KeyspaceDefaults = dir, brock.KeyspaceOptions{ValueThreshold: 200}
	for round, large := range []bool{false, true, true} {
		db := assert.Must(brock.Open(o))
		storetest.Set(t, db, "a=1")
		rep := newReplica()
		rep.pull(t, db, brock.WatchOptions{}, 1, nil)
		assert.OK(t, loadAnew(db, 0, 600, 1000))
		storetest.Set(t, db, "b=1")
		func() {
			l := assert.Must(db.Default().NewLoader(t.Context(), brock.LoadOptions{Sorted: true, MaxMemory: 1}))
			for i := range 600 {
				assert.OK(t, l.Set([]byte{byte(i >> 8), byte(i)}, storetest.RandomBytes(i, 1000)))
			}
			assert.Must(db.Snapshot())
		}()
		next, stop := iter.Pull2(db.Watch(t.Context(), brock.WatchOptions{After: rep.at}))
		c, err, _ := next()
		assert.OK(t, err)
		if large { // it stands still in the middle of the files of a load
			changes, stopChanges := iter.Pull2(c.Changes())
			defer stopChanges()
			ch, err, _ := changes()
			assert.OK(t, err)
			if v, err := ch.Value(); ch.Kind == brock.ChangeSet {
				assert.OK(t, err)
				assert.Equal(t, "value", len(v) > 0, true)
			}
		}
		if round == 2 {
			deadline.Wait(t, "the Loader and the Snapshot are found", func() bool {
				runtime.GC()
				return db.Metrics().Leaked == 1 && !storetest.IsPinned(db)
			})
		}
		assert.OK(t, db.Compact(t.Context()))
		assert.OK(t, db.Close())
		_, err, more := next()
		assert.Error(t, "a Watch of a closed store", err, brock.ErrClosed)
		assert.Equal(t, "it goes on", more, true)
		stop()
		deadline.Wait(t, "all files are closed", func() bool {
			runtime.GC()
			return process.CountHeld(t, dir) == 0
		})
	}
	db := assert.Must(brock.Open(o))
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	assert.OK(t, db.Close())
}
