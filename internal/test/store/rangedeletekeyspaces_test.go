package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
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
	o := brock.Options{Dir: dir, FS: mem, Keys: drawnKeys(t), Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db, err := brock.Open(o)
	must(t, err)
	spaces := make([]*brock.Keyspace, 2)
	for i := range spaces {
		var options brock.KeyspaceOptions
		if retaining == i+1 {
			options.Versions.Age = time.Hour
		}
		spaces[i] = keyspace(t, db, fmt.Sprint(i), options)
		for n := range 10 {
			must(t, spaces[i].Set(fmt.Appendf(nil, "key %d", n), b("old")))
		}
	}
	must(t, db.Flush(t.Context()))
	options := brock.TxnOptions{}
	if spilled {
		options.MaxMemory = 4096
	}
	must(t, db.UpdateContext(t.Context(), options, func(txn *brock.Txn) error {
		must(t, txn.In(spaces[0]).DeleteRange(b("key 5"), nil))
		must(t, txn.In(spaces[1]).DeleteRange(nil, b("key 8")))
		return txn.In(spaces[1]).Set(b("new"), make([]byte, 10_000))
	}))
	wantEqual(t, "spills", db.Metrics().Tree.Spills > 0, spilled)
	check := func(what string, db *brock.DB, first bool) {
		t.Helper()
		must(t, db.View(func(txn *brock.Txn) error {
			if first {
				wantEqual(t, "the first keyspace "+what, keysOf(txn.In(must2(db.Keyspace("0")))), "key 0 key 1 key 2 key 3 key 4")
			}
			wantEqual(t, "the second keyspace "+what, keysOf(txn.In(must2(db.Keyspace("1")))), "key 8 key 9 new")
			return nil
		}))
		must(t, db.Verify(t.Context(), nil))
	}
	check("after the commit", db, true)
	must(t, db.Flush(t.Context()))
	check("after a flush", db, true)
	copiesOfRangeDeletes(t, db, mem, o, func(copied *brock.DB, how string) { check("in "+how, copied, true) })
	must(t, db.Compact(t.Context()))
	check("after a compaction", db, true)
	must(t, spaces[0].Drop(t.Context()))
	check("once the first is dropped", db, false)
	copiesOfRangeDeletes(t, db, mem, o, func(copied *brock.DB, how string) {
		check("once the first is dropped, in "+how, copied, false)
	})
	must(t, spaces[1].Set(b("new"), nil))
	must(t, db.Compact(t.Context()))
	check("after that and a compaction", db, false)
	must(t, db.Close())
}

// copiesOfRangeDeletes calls check for copies of db.
func copiesOfRangeDeletes(t *testing.T, db *brock.DB, mem *vfs.Mem, o brock.Options, check func(copied *brock.DB, how string)) {
	t.Helper()
	var stream bytes.Buffer
	must2(db.Backup(t.Context(), &stream, brock.BackupOptions{}))
	must(t, db.Checkpoint(t.Context(), "/checkpoint"))
	must2(brock.Restore(t.Context(), &stream, brock.Options{Dir: "/backup", FS: mem, Keys: o.Keys}))
	killed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	sum := must2(brock.Salvage(t.Context(), brock.Options{Dir: dir, FS: killed, Keys: o.Keys}, brock.Options{Dir: "/salvage", FS: killed, Keys: o.Keys}, nil))
	wantEqual(t, "losses of Salvage", sum.Losses, 0)
	for how, fs := range map[string]vfs.FS{"checkpoint": mem, "backup": mem, "salvage": killed} {
		copied, err := brock.Open(brock.Options{Dir: "/" + how, FS: fs, Keys: o.Keys})
		must(t, err)
		check(copied, "a "+how)
		must(t, copied.Compact(t.Context()))
		check(copied, "a compacted "+how)
		must(t, copied.Close())
		if how != "salvage" {
			names := must2(mem.List("/" + how))
			for _, name := range names {
				must(t, mem.Remove("/"+how+"/"+name))
			}
			must(t, mem.Remove("/"+how))
		}
	}
}

// keysOf lists the keys that txn sees, with a space between them.
func keysOf(txn *brock.Txn) string {
	var keys [][]byte
	for item, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
		if err != nil {
			return err.Error()
		}
		keys = append(keys, item.KeyCopy(nil))
	}
	return string(bytes.Join(keys, b(" ")))
}

// TestSalvageOfRangesWithOneLowerBound deletes ranges with one lower bound, and nested ones, in one
// transaction each; the journal still has them.
func TestSalvageOfRangesWithOneLowerBound(t *testing.T) {
	for name, ranges := range map[string][][2]string{
		"growing":   {{"a", "c"}, {"a", "g"}, {"a", "e"}},
		"shrinking": {{"a", "g"}, {"a", "e"}, {"a", "c"}},
		"nested":    {{"a", "g"}, {"b", "c"}, {"b", "d"}, {"b", "d"}},
	} {
		mem := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: dir, FS: mem})
		must(t, err)
		set(t, db, "a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1")
		must(t, db.Update(func(txn *brock.Txn) error {
			for _, r := range ranges {
				must(t, txn.DeleteRange(b(r[0]), b(r[1])))
			}
			return nil
		}))
		must(t, db.Close())
		must2(brock.Salvage(t.Context(), brock.Options{Dir: dir, FS: mem}, brock.Options{Dir: "/saved", FS: mem}, func(c *brock.CorruptionError) { t.Error(c) }))
		saved, err := brock.Open(brock.Options{Dir: "/saved", FS: mem})
		must(t, err)
		must(t, saved.View(func(txn *brock.Txn) error { wantEqual(t, name, keysOf(txn), "g"); return nil }))
		must(t, saved.Close())
	}
}
