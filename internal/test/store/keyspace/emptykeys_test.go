package keyspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// The empty key is the least key of its keyspace. Its stored form is the keyspace's prefix alone, which
// is also the bound of the keyspace before: neighbours must not see it, nor delete it.
func TestEmptyKeys(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		t.Run(fmt.Sprintf("keyed=%v", keyed), func(t *testing.T) { checkEmptyKeys(t, keyed) })
	}
}

func checkEmptyKeys(t *testing.T, keyed bool) {
	ctx := t.Context()
	fs := vfs.NewMem()
	o := brock.Options{Dir: "/s", FS: fs, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100, Compression: brock.S2, Versions: brock.Retention{Age: time.Hour}}}
	if keyed {
		o.Keys = storetest.MasterKey(1)
	}
	db := assert.Must(brock.Open(o))
	defer func() { db.Close() }()
	names := []string{""}
	for i := range 250 { // numbers 1 to 250: prefixes of one byte and of two
		names = append(names, fmt.Sprintf("ks%03d", i+1))
		storetest.OpenKeyspace(t, db, names[i+1])
	}
	// Neighbours, on both sides of each change of the prefix's length.
	chosen := []string{names[0], names[1], names[2], names[246], names[247], names[248], names[249]}
	find := func(name string) *brock.Keyspace {
		if name == "" {
			return db.Default()
		}
		return assert.Must(db.Keyspace(name))
	}
	value := func(name string) string { return strings.Repeat("value of "+name+" ", 1+len(name)*5) }
	check := func(step string, present ...string) {
		t.Helper()
		want := make(map[string]bool)
		for _, name := range present {
			want[name] = true
		}
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for _, name := range chosen {
				in := txn.In(find(name))
				item, err := in.First(nil, nil)
				last, err2 := in.Last(nil, []byte{0})
				all := storetest.ListKeys(in)
				has := assert.Must(in.Has(nil))
				direct, err3 := find(name).Get([]byte{})
				versions := 0
				for range in.Versions(nil) {
					versions++
				}
				if !want[name] {
					assert.Error(t, step+": First in "+name, err, brock.ErrKeyNotFound)
					assert.Error(t, step+": Last in "+name, err2, brock.ErrKeyNotFound)
					assert.Error(t, step+": Get in "+name, err3, brock.ErrKeyNotFound)
					assert.Equal(t, step+": "+name, fmt.Sprint(all, has), "false")
					continue
				}
				assert.OK(t, errors.Join(err, err2, err3))
				if item.Key() == nil || len(item.Key()) != 0 || len(last.Key()) != 0 || versions == 0 || !has || string(direct) != value(name) {
					t.Errorf("%s: %q: keys %q and %q, %d versions, has %v, %.10q", step, name, item.Key(), last.Key(), versions, has, direct)
				}
				assert.Equal(t, step+": value in "+name, string(assert.Must(item.Value())), value(name))
			}
			return nil
		}))
		for _, name := range chosen {
			keys := find(name).Split(nil, nil, 5)
			assert.Equal(t, step+": Split of one key", len(keys), 0)
			entries, _ := find(name).EstimateSize(nil, nil)
			if want[name] && entries == 0 {
				t.Errorf("%s: %q seems to be empty", step, name)
			}
		}
	}
	check("at first")
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for _, name := range chosen {
			assert.OK(t, txn.In(find(name)).Set(nil, []byte(value(name))))
			assert.Equal(t, "own write", assert.Must(txn.In(find(name)).Has([]byte{})), true)
		}
		return nil
	}))
	full := db.Version()
	check("set", chosen...)
	assert.OK(t, db.Flush(ctx))
	check("flushed", chosen...)
	// A range that ends with a keyspace ends before the empty key of the next one.
	odd, even := []string{chosen[1], chosen[3], chosen[5]}, []string{chosen[0], chosen[2], chosen[4], chosen[6]}
	for i, name := range even {
		ks := find(name)
		switch i {
		case 0:
			assert.OK(t, ks.Clear(ctx))
		case 1:
			assert.OK(t, ks.DeleteRange(nil, []byte{0}))
		case 2:
			assert.OK(t, ks.Delete(nil))
		case 3:
			assert.OK(t, ks.CompareAndDelete(nil, full))
		}
	}
	check("even ones deleted", odd...)
	assert.OK(t, db.Compact(ctx))
	check("compacted", odd...)
	assert.OK(t, db.ViewContext(ctx, brock.TxnOptions{ReadAt: full}, func(txn *brock.Txn) error {
		assert.Equal(t, "as it was", string(assert.Must(assert.Must(txn.Get(nil)).Value())), value(""))
		return nil
	}))
	// The feed.
	watched, stop := context.WithCancel(ctx)
	w := db.NewWriter(ctx)
	for c, err := range db.Watch(watched, brock.WatchOptions{Snapshot: true}) {
		if err != nil {
			assert.Error(t, "watch", err, context.Canceled)
			break
		}
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			if c.Snapshot && ch.Kind == brock.ChangeKeyspaceCreated {
				continue // it begins with what there is
			}
			if ch.Kind != brock.ChangeSet || len(ch.Key) != 0 || string(assert.Must(ch.Value())) != value(ch.Keyspace) {
				t.Errorf("a change: %v %q in %q", ch.Kind, ch.Key, ch.Keyspace)
			}
		}
		if !c.Snapshot {
			stop()
			continue
		}
		assert.OK(t, errors.Join(w.Set([]byte{}, []byte(value(""))), w.Close()))
	}
	stop()
	present := append([]string{""}, odd...)
	check("watched", present...)
	// A conflict over the empty key names it: nil would be a range.
	txn := db.NewTransaction(true)
	assert.ErrorOf(txn.Get(nil))
	assert.OK(t, errors.Join(txn.Set([]byte("x"), nil), db.Set(nil, []byte(value("")))))
	var conflict *brock.ConflictError
	if !errors.As(txn.Commit(), &conflict) || conflict.Key == nil || len(conflict.Key) != 0 {
		t.Errorf("conflict: %+v", conflict)
	}
	// A transaction in files.
	large := assert.Must(db.Begin(ctx, brock.TxnOptions{Update: true, MaxMemory: 1}))
	assert.OK(t, errors.Join(large.DeletePrefix(nil), large.Set(nil, []byte(value("")))))
	assert.Equal(t, "in files", string(assert.Must(assert.Must(large.First(nil, nil)).Value())), value(""))
	assert.OK(t, large.Commit())
	check("spilled", present...)
	// Copies.
	backup, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
	assert.OK(t, db.Checkpoint(ctx, "/checkpoint"))
	assert.OK(t, errors.Join(db.Verify(ctx, nil), db.Close()))
	db = assert.Must(brock.Open(o))
	check("opened again", present...)
	assert.OK(t, db.Close())
	from, to := o, o
	to.Dir = "/salvaged"
	_, err := brock.Salvage(ctx, from, to, nil)
	assert.OK(t, err)
	restored := o
	restored.Dir = "/restored"
	_, err = brock.Restore(ctx, bytes.NewReader(backup), restored)
	assert.OK(t, err)
	for _, dir := range []string{"/checkpoint", "/salvaged", "/restored"} {
		for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.Follow, brock.ReadWrite} {
			opened := o
			opened.Dir, opened.Mode = dir, mode
			db = assert.Must(brock.Open(opened))
			check(fmt.Sprint(dir, " as ", mode), present...)
			assert.OK(t, db.Close())
		}
	}
	db = assert.Must(brock.Open(o))
	// The drop of a keyspace takes nothing of its neighbours.
	assert.OK(t, find(chosen[2]).Drop(ctx))
	storetest.OpenKeyspace(t, db, chosen[2])
	assert.OK(t, db.Compact(ctx))
	check("dropped", present...)
	assert.OK(t, db.DropAll(ctx))
	check("all dropped")
}

// Iterators treat an empty key as others, except that a Seek of it is Rewind.
func TestIteratorsOverEmptyKeys(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return errors.Join(txn.Set(nil, []byte("0")), storetest.Put(txn, "a=1")) }))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Reverse: true})
		defer it.Close()
		it.Seek(nil)
		assert.Equal(t, "Seek of nothing, in reverse", string(it.Item().Key()), "a")
		it.Next()
		assert.Equal(t, "the last one is the empty key", fmt.Sprint(it.Valid(), it.ValidForPrefix(nil), len(it.Item().Key())), "true true 0")
		it.Next()
		assert.Equal(t, "and then the end", it.Valid(), false)
		n := 0
		for item, err := range txn.GetMany([][]byte{{}, []byte("a"), nil}) {
			assert.OK(t, err)
			assert.Equal(t, "GetMany", string(assert.Must(item.Value())), []string{"0", "1", "0"}[n])
			n++
		}
		return nil
	}))
}
