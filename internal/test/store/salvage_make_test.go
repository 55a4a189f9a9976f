package store

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
	"github.com/brockdb/brock/vfs"
)

// toSalvage makes a store with a ValueDir and a large transaction, and without SUPER and
// MANIFEST if it is to be damaged.
func toSalvage(t *testing.T, fs vfs.FS, damaged bool) brock.Options {
	o := salvageOptions(fs, "/old")
	o.ValueDir = "/values"
	db, err := brock.Open(o)
	must(t, err)
	ks := keyspace(t, db, "fruit", brock.KeyspaceOptions{ValueThreshold: 100, TTL: 1 << 60})
	for i := range 300 {
		must(t, db.Set(fmt.Appendf(nil, "key %03d", i), incompressible(i, 10+i*3)))
		must(t, ks.Set(fmt.Appendf(nil, "key %03d", i), incompressible(i, 200)))
	}
	must(t, db.Flush(t.Context()))
	must(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
		for i := range 300 {
			if err := txn.Set(fmt.Appendf(nil, "large %03d", i), incompressible(i, 1000)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, db.DeleteRange([]byte("key 100"), []byte("key 120")))
	must(t, db.Close())
	if damaged {
		names, err := fs.List("/old")
		must(t, err)
		for _, name := range names {
			if name == "SUPER" || name[0] == 'M' {
				must(t, fs.Remove("/old/"+name))
			}
		}
	}
	return o
}

func pairsIn(t *testing.T, o brock.Options) (n int) {
	o.MustExist, o.ValueDir = true, ""
	db, err := brock.Open(o)
	must(t, err)
	must(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	must(t, db.View(func(txn *brock.Txn) error {
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
	must(t, db.Close())
	return n
}

// TestSalvageKeepsEverything: of a sound store all is in the new one, keyspaces and their
// options, values in a directory of their own, and large transactions.
func TestSalvageKeepsEverything(t *testing.T) {
	mem := vfs.NewMem()
	o := toSalvage(t, mem, false)
	to := salvageOptions(mem, "/new")
	sum, err := brock.Salvage(t.Context(), o, to, func(c *brock.CorruptionError) { t.Error(c) })
	must(t, err)
	wantEqual(t, "keys", sum.Keys, 880)
	wantEqual(t, "keys", pairsIn(t, to), 880)
	db := opened(t, to)
	ks := must2(db.Keyspace("fruit"))
	wantEqual(t, "TTL", ks.Options().TTL, 1<<60)
	wantEqual(t, "threshold", ks.Options().ValueThreshold, 100)
	wantEqual(t, "version", db.Version(), sum.Version)
}

// TestSalvageRefuses: what can't be a salvage leaves everything as it was.
func TestSalvageRefuses(t *testing.T) {
	mem := vfs.NewMem()
	o := toSalvage(t, mem, false)
	to := salvageOptions(mem, "/new")
	try := func(what string, from, to brock.Options, want error) {
		t.Helper()
		_, err := brock.Salvage(t.Context(), from, to, nil)
		wantErr(t, what, err, want)
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
	must(t, mem.MkdirAll("/nothing"))
	try("an empty directory", nothing, to, brock.ErrNotExist)
	db, err := brock.Open(o)
	must(t, err)
	try("a writer at work", o, to, brock.ErrLocked)
	must(t, db.Close())
	same := to
	same.Dir = "/old"
	try("onto itself", o, same, brock.ErrExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = brock.Salvage(ctx, o, to, nil)
	wantErr(t, "canceled", err, context.Canceled)
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
	must(t, err)
	whole := 0
	for i, c := range points {
		if testing.Short() && i%3 != 0 && i < len(points)-4 {
			continue
		}
		of := to
		of.FS, of.MustExist = c, true
		db, err := brock.Open(of)
		if err == nil {
			must(t, db.Close())
			whole++
			wantEqual(t, "keys", uint64(pairsIn(t, of)), sum.Keys)
		} else if !errors.Is(err, brock.ErrNotExist) && !errors.Is(err, brock.ErrCorrupt) {
			t.Errorf("crash %d: %v", i, err)
		}
	}
	if whole == 0 || whole == len(points) {
		t.Errorf("%d of %d crashes left a whole store", whole, len(points))
	}
	of := to
	of.FS = mem.CrashClone(vfs.CrashOptions{})
	wantEqual(t, "keys of what is durable", uint64(pairsIn(t, of)), sum.Keys)
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
			must(t, db.Close())
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
	must(t, err)
	ks := keyspace(t, db, "fruit", brock.KeyspaceOptions{ValueThreshold: 100})
	gone := keyspace(t, db, "gone")
	for i := range 100 {
		must(t, db.Set(fmt.Appendf(nil, "key %03d", i), incompressible(i, 1000)))
		must(t, ks.Set(fmt.Appendf(nil, "key %03d", i), incompressible(i, 200)))
		must(t, gone.Set(fmt.Appendf(nil, "key %03d", i), incompressible(i, 700)))
	}
	must(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
		for i := range 300 {
			if err := txn.Set(fmt.Appendf(nil, "large %03d", i), incompressible(i, 1000)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, db.Flush(t.Context()))
	must(t, gone.Drop(t.Context()))
	for i := range 30 {
		must(t, db.Delete(fmt.Appendf(nil, "key %03d", i)))
	}
	must(t, db.Compact(t.Context()))
	must(t, db.Set([]byte("more"), []byte("value")))
	must(t, db.Flush(t.Context()))
	must(t, db.Set([]byte("last"), []byte("value")))
	must(t, db.Close())
	names, err := mem.List("/old")
	must(t, err)
	for _, name := range names {
		if name == "SUPER" || name[0] == 'M' {
			must(t, mem.Remove("/old/"+name))
		}
	}
	to := salvageOptions(mem, "/new")
	var said []string
	sum, err := brock.Salvage(t.Context(), o, to, func(c *brock.CorruptionError) { said = append(said, c.Error()) })
	must(t, err)
	wantEqual(t, fmt.Sprintf("keys (%q)", said), sum.Keys, 70+100+300+2)
	wantEqual(t, "keys", pairsIn(t, to), 70+100+300+2)
	db = opened(t, to)
	wantEqual(t, "keyspaces", strings.Join(sum.Keyspaces, " "), "fruit")
	wantEqual(t, "threshold", must2(db.Keyspace("fruit")).Options().ValueThreshold, 100)
}
