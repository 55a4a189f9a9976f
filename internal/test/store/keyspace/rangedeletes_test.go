package keyspace

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestRangeDeletesOverKeyspaces deletes the end of one keyspace and the beginning of the next one in
// one transaction. The two deletes touch, and stay two, whatever happens to the store: keyspaces
// retain different versions, and the first is dropped alone.
func TestRangeDeletesOverKeyspaces(t *testing.T) {
	for _, spilled := range []bool{false, true} {
		for retaining := range 3 { // neither, the first, the second
			t.Run(fmt.Sprintf("spilled %v, retaining %d", spilled, retaining), func(t *testing.T) {
				t.Parallel()
				rangeDeletesOverKeyspaces(t, spilled, retaining)
			})
		}
	}
}

func rangeDeletesOverKeyspaces(t *testing.T, spilled bool, retaining int) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: storetest.Dir, FS: mem, Keys: storetest.DrawKeys(t), Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	spaces := make([]*brock.Keyspace, 2)
	for i := range spaces {
		var options brock.KeyspaceOptions
		if retaining == i+1 {
			options.Versions.Age = time.Hour
		}
		spaces[i] = storetest.OpenKeyspace(t, db, fmt.Sprint(i), options)
		for n := range 10 {
			assert.OK(t, spaces[i].Set(fmt.Appendf(nil, "key %d", n), []byte("old")))
		}
	}
	assert.OK(t, db.Flush(t.Context()))
	options := brock.TxnOptions{}
	if spilled {
		options.MaxMemory = 4096
	}
	assert.OK(t, db.UpdateContext(t.Context(), options, func(txn *brock.Txn) error {
		assert.OK(t, txn.In(spaces[0]).DeleteRange([]byte("key 5"), nil))
		assert.OK(t, txn.In(spaces[1]).DeleteRange(nil, []byte("key 8")))
		return txn.In(spaces[1]).Set([]byte("new"), make([]byte, 10_000))
	}))
	assert.Equal(t, "spills", db.Metrics().Tree.Spills > 0, spilled)
	check := func(what string, db *brock.DB, first bool) {
		t.Helper()
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			if first {
				assert.Equal(t, "the first keyspace "+what, storetest.ListKeys(txn.In(assert.Must(db.Keyspace("0")))), "key 0 key 1 key 2 key 3 key 4")
			}
			assert.Equal(t, "the second keyspace "+what, storetest.ListKeys(txn.In(assert.Must(db.Keyspace("1")))), "key 8 key 9 new")
			return nil
		}))
		assert.OK(t, db.Verify(t.Context(), nil))
	}
	check("after the commit", db, true)
	assert.OK(t, db.Flush(t.Context()))
	check("after a flush", db, true)
	copiesOfRangeDeletes(t, db, mem, o, func(copied *brock.DB, how string) { check("in "+how, copied, true) })
	assert.OK(t, db.Compact(t.Context()))
	check("after a compaction", db, true)
	assert.OK(t, spaces[0].Drop(t.Context()))
	check("once the first is dropped", db, false)
	copiesOfRangeDeletes(t, db, mem, o, func(copied *brock.DB, how string) {
		check("once the first is dropped, in "+how, copied, false)
	})
	assert.OK(t, spaces[1].Set([]byte("new"), nil))
	assert.OK(t, db.Compact(t.Context()))
	check("after that and a compaction", db, false)
	assert.OK(t, db.Close())
}

// copiesOfRangeDeletes calls check for copies of db.
func copiesOfRangeDeletes(t *testing.T, db *brock.DB, mem *vfs.Mem, o brock.Options, check func(copied *brock.DB, how string)) {
	t.Helper()
	var stream bytes.Buffer
	assert.Must(db.Backup(t.Context(), &stream, brock.BackupOptions{}))
	assert.OK(t, db.Checkpoint(t.Context(), "/checkpoint"))
	assert.Must(brock.Restore(t.Context(), &stream, brock.Options{Dir: "/backup", FS: mem, Keys: o.Keys}))
	killed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	sum := assert.Must(brock.Salvage(t.Context(), brock.Options{Dir: storetest.Dir, FS: killed, Keys: o.Keys}, brock.Options{Dir: "/salvage", FS: killed, Keys: o.Keys}, nil))
	assert.Equal(t, "losses of Salvage", sum.Losses, 0)
	for how, fs := range map[string]vfs.FS{"checkpoint": mem, "backup": mem, "salvage": killed} {
		copied, err := brock.Open(brock.Options{Dir: "/" + how, FS: fs, Keys: o.Keys})
		assert.OK(t, err)
		check(copied, "a "+how)
		assert.OK(t, copied.Compact(t.Context()))
		check(copied, "a compacted "+how)
		assert.OK(t, copied.Close())
		if how != "salvage" {
			names := assert.Must(mem.List("/" + how))
			for _, name := range names {
				assert.OK(t, mem.Remove("/"+how+"/"+name))
			}
			assert.OK(t, mem.Remove("/"+how))
		}
	}
}
