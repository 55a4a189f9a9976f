// Package salvage tests what Salvage makes of stores, damaged and sound.
package salvage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// toSalvage makes a store with a ValueDir and a large transaction, and without SUPER and
// MANIFEST if it is to be damaged.
func toSalvage(t *testing.T, fs vfs.FS, damaged bool) brock.Options {
	o := salvageOptions(fs, "/old")
	o.ValueDir = "/values"
	db, err := brock.Open(o)
	assert.OK(t, err)
	ks := storetest.OpenKeyspace(t, db, "fruit", brock.KeyspaceOptions{ValueThreshold: 100, TTL: 1 << 60})
	for i := range 300 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %03d", i), storetest.RandomBytes(i, 10+i*3)))
		assert.OK(t, ks.Set(fmt.Appendf(nil, "key %03d", i), storetest.RandomBytes(i, 200)))
	}
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
		for i := range 300 {
			if err := txn.Set(fmt.Appendf(nil, "large %03d", i), storetest.RandomBytes(i, 1000)); err != nil {
				return err
			}
		}
		return nil
	}))
	assert.OK(t, db.DeleteRange([]byte("key 100"), []byte("key 120")))
	assert.OK(t, db.Close())
	if damaged {
		names, err := fs.List("/old")
		assert.OK(t, err)
		for _, name := range names {
			if name == "SUPER" || name[0] == 'M' {
				assert.OK(t, fs.Remove("/old/"+name))
			}
		}
	}
	return o
}

func pairsIn(t *testing.T, o brock.Options) (n int) {
	o.MustExist, o.ValueDir = true, ""
	db, err := brock.Open(o)
	assert.OK(t, err)
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for range txn.Items(brock.IteratorOptions{}) {
			n++
		}
		for ks := range db.Keyspaces() {
			for range txn.In(ks).Items(brock.IteratorOptions{}) {
				n++
			}
		}
		return nil
	}))
	assert.OK(t, db.Close())
	return n
}

// TestSalvageKeepsEverything: of a sound store all is in the new one, keyspaces and their
// options, values in a directory of their own, and large transactions.
func TestSalvageKeepsEverything(t *testing.T) {
	mem := vfs.NewMem()
	o := toSalvage(t, mem, false)
	to := salvageOptions(mem, "/new")
	sum, err := brock.Salvage(t.Context(), o, to, func(c *brock.CorruptionError) { t.Error(c) })
	assert.OK(t, err)
	assert.Equal(t, "keys", sum.Keys, 880)
	assert.Equal(t, "keys", pairsIn(t, to), 880)
	db := storetest.OpenExisting(t, to)
	ks := assert.Must(db.Keyspace("fruit"))
	assert.Equal(t, "TTL", ks.Options().TTL, 1<<60)
	assert.Equal(t, "threshold", ks.Options().ValueThreshold, 100)
	assert.Equal(t, "version", db.Version(), sum.Version)
}

// TestSalvageRefuses: what can't be a salvage leaves everything as it was.
func TestSalvageRefuses(t *testing.T) {
	mem := vfs.NewMem()
	o := toSalvage(t, mem, false)
	to := salvageOptions(mem, "/new")
	try := func(what string, from, to brock.Options, want error) {
		t.Helper()
		_, err := brock.Salvage(t.Context(), from, to, nil)
		assert.Error(t, what, err, want)
		if _, err := mem.Stat("/new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the target is there: %v", what, err)
		}
	}
	without := o
	without.ValueDir = ""
	try("without the value directory", without, to, brock.ErrInvalid)
	apart := to
	apart.ValueDir = "/apart"
	try("a value directory for the new store", o, apart, brock.ErrInvalid)
	following := to
	following.Mode = brock.Follow
	try("a new store to follow", o, following, brock.ErrInvalid)
	nothing := o
	nothing.Dir, nothing.ValueDir = "/nothing", ""
	try("no store", nothing, to, brock.ErrNotExist)
	assert.OK(t, mem.MkdirAll("/nothing"))
	try("an empty directory", nothing, to, brock.ErrNotExist)
	db, err := brock.Open(o)
	assert.OK(t, err)
	try("a writer at work", o, to, brock.ErrLocked)
	assert.OK(t, db.Close())
	same := to
	same.Dir = "/old"
	try("onto itself", o, same, brock.ErrExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = brock.Salvage(ctx, o, to, nil)
	assert.Error(t, "canceled", err, context.Canceled)
}

// TestSalvageCrashes: until all of it is durable, the new store does not open, and the old
// one is as it was.
func TestSalvageCrashes(t *testing.T) {
	mem := vfs.NewMem()
	o := toSalvage(t, mem, true)
	to := salvageOptions(nil, "/new")
	var points []*vfs.Mem
	var mu sync.Mutex
	take := func(op faultfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
			points = append(points, mem.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: uint64(len(points))}))
		}
	}
	to.FS = faultfs.New(mem, faultfs.Options{Before: take})
	o.FS = mem
	sum, err := brock.Salvage(t.Context(), o, to, nil)
	assert.OK(t, err)
	whole := 0
	for i, c := range points {
		if testing.Short() && i%3 != 0 && i < len(points)-4 {
			continue
		}
		of := to
		of.FS, of.MustExist = c, true
		db, err := brock.Open(of)
		if err == nil {
			assert.OK(t, db.Close())
			whole++
			assert.Equal(t, "keys", uint64(pairsIn(t, of)), sum.Keys)
		} else if !errors.Is(err, brock.ErrNotExist) && !errors.Is(err, brock.ErrCorrupt) {
			t.Errorf("crash %d: %v", i, err)
		}
	}
	if whole == 0 || whole == len(points) {
		t.Errorf("%d of %d crashes left a whole store", whole, len(points))
	}
	of := to
	of.FS = mem.CrashClone(vfs.CrashOptions{})
	assert.Equal(t, "keys of what is durable", uint64(pairsIn(t, of)), sum.Keys)
}

// TestSalvageFails has each call on the new store fail in turn: nothing is left.
func TestSalvageFails(t *testing.T) {
	mem := vfs.NewMem()
	o := toSalvage(t, mem, false)
	for n := 1; ; n++ {
		if testing.Short() && n%5 != 1 {
			continue
		}
		c := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		from, to := o, salvageOptions(nil, "/new")
		from.FS = c
		faulty := faultfs.New(c, faultfs.Options{})
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: n})
		to.FS = faulty
		_, err := brock.Salvage(t.Context(), from, to, nil)
		if err == nil {
			if n == 1 {
				t.Error("nothing failed")
			}
			return
		}
		of := to
		of.FS, of.MustExist = c, true
		if db, err := brock.Open(of); err == nil {
			assert.OK(t, db.Close())
			t.Errorf("call %d failed, and there is a store", n)
		}
	}
}

// TestSalvageWithoutManifest: the files of runs say what the manifest did. So keyspaces
// have their names and options, what was deleted or dropped stays away, though segments
// have its values, and a large transaction is there.
func TestSalvageWithoutManifest(t *testing.T) {
	mem := vfs.NewMem()
	o := salvageOptions(mem, "/old")
	db, err := brock.Open(o)
	assert.OK(t, err)
	ks := storetest.OpenKeyspace(t, db, "fruit", brock.KeyspaceOptions{ValueThreshold: 100})
	gone := storetest.OpenKeyspace(t, db, "gone")
	for i := range 100 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %03d", i), storetest.RandomBytes(i, 1000)))
		assert.OK(t, ks.Set(fmt.Appendf(nil, "key %03d", i), storetest.RandomBytes(i, 200)))
		assert.OK(t, gone.Set(fmt.Appendf(nil, "key %03d", i), storetest.RandomBytes(i, 700)))
	}
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
		for i := range 300 {
			if err := txn.Set(fmt.Appendf(nil, "large %03d", i), storetest.RandomBytes(i, 1000)); err != nil {
				return err
			}
		}
		return nil
	}))
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, gone.Drop(t.Context()))
	for i := range 30 {
		assert.OK(t, db.Delete(fmt.Appendf(nil, "key %03d", i)))
	}
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.Set([]byte("more"), []byte("value")))
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, db.Set([]byte("last"), []byte("value")))
	assert.OK(t, db.Close())
	names, err := mem.List("/old")
	assert.OK(t, err)
	for _, name := range names {
		if name == "SUPER" || name[0] == 'M' {
			assert.OK(t, mem.Remove("/old/"+name))
		}
	}
	to := salvageOptions(mem, "/new")
	var said []string
	sum, err := brock.Salvage(t.Context(), o, to, func(c *brock.CorruptionError) { said = append(said, c.Error()) })
	assert.OK(t, err)
	assert.Equal(t, fmt.Sprintf("keys (%q)", said), sum.Keys, 70+100+300+2)
	assert.Equal(t, "keys", pairsIn(t, to), 70+100+300+2)
	db = storetest.OpenExisting(t, to)
	assert.Equal(t, "keyspaces", strings.Join(sum.Keyspaces, " "), "fruit")
	assert.Equal(t, "threshold", assert.Must(db.Keyspace("fruit")).Options().ValueThreshold, 100)
}
