package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// damagedKeys is how many keys each keyspace of a damaged store has.
const damagedKeys = 3000

// damagedStore makes a store, and closes it, with a base run of all keys of three
// keyspaces and an upper run that has newer versions of some and deletes others. Every
// tenth value is separated.
func damagedStore(t *testing.T) (*vfs.Mem, brock.Options) {
	t.Helper()
	fsys := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: fsys, Keys: drawnKeys(t), Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := must2(brock.Open(o))
	for round := range 2 {
		for _, ks := range []*brock.Keyspace{nil, keyspace(t, db, "one"), keyspace(t, db, "two")} {
			must(t, db.Update(func(txn *brock.Txn) error {
				txn = txn.In(ks)
				for i := 0; i < damagedKeys; i += 1 + round {
					if round == 1 && i%5 == 0 {
						must(t, txn.Delete(damagedKey(i)))
						continue
					}
					must(t, txn.Set(damagedKey(i), damagedValue(i, round)))
				}
				return nil
			}))
		}
		if round == 0 {
			must(t, db.Compact(context.Background()))
		} else {
			must(t, db.Flush(context.Background()))
		}
	}
	must(t, db.Close())
	return fsys, o
}

func damagedKey(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

func damagedValue(i, round int) []byte {
	n := 4
	if i%10 == 1 {
		n = 300 // separated
	}
	return bytes.Repeat(fmt.Appendf(nil, "%d/%d ", i, round), n)
}

// filesOf lists the store's files whose names end so.
func filesOf(t *testing.T, fsys vfs.FS, end string) (list []string) {
	t.Helper()
	for _, name := range must2(fsys.List("db")) {
		if strings.HasSuffix(name, end) {
			list = append(list, "db/"+name)
		}
	}
	return list
}

func flipAt(t *testing.T, fsys vfs.FS, name string, off int) {
	t.Helper()
	edit(t, fsys, name, func(p []byte) { p[off] ^= 0x10 })
}

// inKeys reports whether a damage concerns a key.
func inKeys(c *brock.CorruptionError, ks string, key []byte) bool {
	for _, r := range c.Keys {
		if r.Keyspace == ks && bytes.Compare(r.Lower, key) <= 0 && (r.Upper == nil || bytes.Compare(key, r.Upper) < 0) {
			return true
		}
	}
	return false
}

// TestCorruptionErrorNamesKeys: the damage that a read, a scan and Verify meet names the
// keys that are concerned, in their keyspaces.
func TestCorruptionErrorNamesKeys(t *testing.T) {
	fsys, o := damagedStore(t)
	for _, name := range append(filesOf(t, fsys, ".run"), filesOf(t, fsys, ".val")...) {
		flipAt(t, fsys, name, len(readFile(t, fsys, name))/2)
	}
	db := must2(brock.Open(o))
	defer db.Close()
	failed := 0
	for _, ks := range []*brock.Keyspace{keyspace(t, db, "one"), keyspace(t, db, "two")} {
		for i := range damagedKeys {
			var c *brock.CorruptionError
			_, err := ks.Get(damagedKey(i))
			if !errors.As(err, &c) {
				continue
			}
			if failed++; !inKeys(c, ks.Name(), damagedKey(i)) {
				t.Fatalf("key %d of %s: %v concerns %q", i, ks.Name(), c, c.Keys)
			}
		}
	}
	if failed == 0 {
		t.Error("nothing was damaged")
	}
	known := 0
	_ = db.Verify(context.Background(), func(c *brock.CorruptionError) {
		if strings.HasSuffix(c.File, ".run") && len(c.Keys) == 0 {
			t.Errorf("%v: concerns nothing", c)
		}
		known += len(c.Keys)
	})
	if known == 0 {
		t.Error("Verify knows of no keys")
	}
}

// damagedWant is the value of a key of a damagedStore; "" = it was deleted.
func damagedWant(i int) string {
	switch {
	case i%2 == 1:
		return string(damagedValue(i, 0))
	case i%5 == 0:
		return ""
	}
	return string(damagedValue(i, 1))
}

// damagedScan is a scan of one keyspace behind damage.
type damagedScan struct {
	t    *testing.T
	ks   string
	told []*brock.CorruptionError
	got  map[string]string // of keys shown; "?" if the value could not be read
}

func (s *damagedScan) tell(c *brock.CorruptionError) bool {
	s.told = append(s.told, c)
	return true
}

func (s *damagedScan) run(txn *brock.Txn, o brock.IteratorOptions, seek []byte) {
	s.t.Helper()
	s.got = map[string]string{}
	o.OnDamage = s.tell
	it := txn.NewIterator(o)
	last := ""
	for it.Seek(seek); it.Valid(); it.Next() {
		key := string(it.Item().KeyCopy(nil))
		if last != "" && (key > last) == o.Reverse {
			s.t.Fatalf("%s after %s", key, last)
		}
		last = key
		value, err := it.Item().ValueCopy(nil)
		s.got[key] = string(value)
		var c *brock.CorruptionError
		if errors.As(err, &c) && inKeys(c, s.ks, []byte(key)) {
			s.got[key] = "?"
		} else if err != nil {
			s.t.Fatalf("%s: %v", key, err)
		}
	}
	must(s.t, it.Close())
}

// check compares what was shown of the keys in [lo, hi) with what must be: all, but for
// keys that somebody was told of.
func (s *damagedScan) check(lo, hi int) (missing int) {
	s.t.Helper()
	for i := lo; i < hi; i++ {
		key, want := string(damagedKey(i)), damagedWant(i)
		got, shown := s.got[key]
		if got == "?" || shown == (want != "") && got == want {
			continue
		}
		missing++
		told, stale := false, false
		for _, c := range s.told {
			if inKeys(c, s.ks, []byte(key)) {
				told, stale = true, stale || c.Stale
			}
		}
		if !told || shown && (!stale || got != string(damagedValue(i, 0))) {
			s.t.Fatalf("%s of %q: shown %v %.20q, want %.20q; told %v, stale %v", key, s.ks, shown, got, want, told, stale)
		}
	}
	return missing
}

// TestOnDamage: with any page of a run damaged, iterators that go on show all that lies
// elsewhere, in both directions, from anywhere, and tell of the rest.
func TestOnDamage(t *testing.T) {
	fsys, o := damagedStore(t)
	o.Mode = brock.ReadOnly
	step := 3
	switch {
	case *every:
		step = 1
	case testing.Short():
		step = 7
	}
	missing, opened := 0, 0
	for _, name := range filesOf(t, fsys, ".run") {
		for page := 0; page < len(readFile(t, fsys, name))/4096; page += step {
			off := page*4096 + (page*977+11)%4096
			flipAt(t, fsys, name, off)
			if db, err := brock.Open(o); err == nil { // else it is the directory
				opened++
				missing += scanDamaged(t, db)
				must(t, db.Close())
			}
			flipAt(t, fsys, name, off)
		}
	}
	if missing == 0 || opened == 0 {
		t.Errorf("%d stores opened, %d keys were missing", opened, missing)
	}
}

func scanDamaged(t *testing.T, db *brock.DB) (missing int) {
	for _, ks := range []*brock.Keyspace{nil, must2(db.Keyspace("one")), must2(db.Keyspace("two"))} {
		must(t, db.View(func(txn *brock.Txn) error {
			txn = txn.In(ks)
			s := &damagedScan{t: t}
			if ks != nil {
				s.ks = ks.Name()
			}
			s.run(txn, brock.IteratorOptions{}, nil)
			missing += s.check(0, damagedKeys)
			s.told = nil
			s.run(txn, brock.IteratorOptions{Reverse: true, Prefetch: 20}, nil)
			missing += s.check(0, damagedKeys)
			at := 100 + 37*missing%(damagedKeys-200)
			s.told = nil
			s.run(txn, brock.IteratorOptions{Prefetch: 3}, damagedKey(at))
			s.check(at, damagedKeys)
			s.told = nil
			s.run(txn, brock.IteratorOptions{Reverse: true}, damagedKey(at))
			s.check(0, at+1)
			s.told = nil
			s.run(txn, brock.IteratorOptions{Prefix: []byte("key 0012")}, nil)
			s.check(1200, 1300)
			return nil
		}))
	}
	return missing
}

// TestOnDamageEnds: the iterator ends there if OnDamage returns false, or closes it.
func TestOnDamageEnds(t *testing.T) {
	fsys, o := damagedStore(t)
	for _, name := range filesOf(t, fsys, ".run") {
		flipAt(t, fsys, name, 5000)
	}
	db := must2(brock.Open(o))
	defer db.Close()
	for what, end := range map[string]func(*brock.Txn, *brock.Iterator) bool{
		"false":   func(*brock.Txn, *brock.Iterator) bool { return false },
		"close":   func(_ *brock.Txn, it *brock.Iterator) bool { _ = it.Close(); return true },
		"discard": func(txn *brock.Txn, _ *brock.Iterator) bool { txn.Discard(); return true },
	} {
		txn := must2(db.Begin(context.Background(), brock.TxnOptions{Update: true}))
		must(t, txn.Set([]byte("key 000000"), []byte("own")))
		var it *brock.Iterator
		called := 0
		it = txn.NewIterator(brock.IteratorOptions{OnDamage: func(*brock.CorruptionError) bool {
			called++
			return end(txn, it)
		}})
		for it.Rewind(); it.Valid(); it.Next() {
		}
		if called != 1 {
			t.Errorf("%s: called %d times", what, called)
		}
		if what == "false" {
			wantErr(t, what, it.Err(), brock.ErrCorrupt)
			it.Rewind()
			it.Seek(damagedKey(damagedKeys - 50))
			must(t, it.Err())
			wantEqual(t, what, it.Valid(), true)
		}
		_ = it.Close()
		txn.Discard()
	}
}

// TestOnDamageInHistory: a walk over all versions goes on behind damage, and shows each
// version once.
func TestOnDamageInHistory(t *testing.T) {
	fsys := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: fsys, Keys: drawnKeys(t), KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Versions: 100}},
		Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := must2(brock.Open(o))
	for v := range 30 {
		must(t, db.Update(func(txn *brock.Txn) error {
			for i := range 200 {
				must(t, txn.Set(damagedKey(i), damagedValue(i, v)))
			}
			return nil
		}))
	}
	must(t, db.DeleteRange(damagedKey(50), damagedKey(60)))
	must(t, db.Compact(context.Background()))
	must(t, db.Close())
	name := filesOf(t, fsys, ".run")[0]
	for page := 1; page < 30; page += 7 {
		flipAt(t, fsys, name, page*4096+77)
		db := must2(brock.Open(o))
		var forward, backward []string
		for _, reverse := range []bool{false, true} {
			list, told := &forward, 0
			if reverse {
				list = &backward
			}
			must(t, db.View(func(txn *brock.Txn) error {
				for item, err := range txn.Items(brock.IteratorOptions{AllVersions: true, Reverse: reverse, OnDamage: func(*brock.CorruptionError) bool { told++; return true }}) {
					must(t, err)
					*list = append(*list, fmt.Sprint(string(item.Key()), item.Version()))
				}
				return nil
			}))
			wantEqual(t, "told", told, 1)
		}
		slices.Reverse(backward)
		if !slices.Equal(forward, backward) || len(forward) < 5500 || len(slices.Compact(slices.Sorted(slices.Values(forward)))) != len(forward) {
			t.Errorf("page %d: %d forward, %d backward", page, len(forward), len(backward))
		}
		must(t, db.Close())
		flipAt(t, fsys, name, page*4096+77)
	}
}
