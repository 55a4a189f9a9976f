package store

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
		if strings.HasSuffix(c.File, ".run") && c.FollowUp != (len(c.Keys) == 0) {
			t.Errorf("%v: concerns %q, a follow-up %v", c, c.Keys, c.FollowUp)
		}
		known += len(c.Keys)
	})
	if known == 0 {
		t.Error("Verify knows of no keys")
	}
}

// TestFollowUpsAreMarked: four bytes of a run that are flipped are one finding. What does not agree as
// the page can't be read is marked as a follow-up, and names no key.
func TestFollowUpsAreMarked(t *testing.T) {
	fsys, o := damagedStore(t)
	name := filesOf(t, fsys, ".run")[0]
	at := len(readFile(t, fsys, name)) / 2
	for i := range 4 {
		flipAt(t, fsys, name, at+i)
	}
	db := must2(brock.Open(o))
	defer db.Close()
	var damage, follow int
	_ = db.Verify(t.Context(), func(c *brock.CorruptionError) {
		switch {
		case !c.FollowUp:
			damage++
		case damage == 0 || c.Keys != nil:
			t.Errorf("%v follows %d findings, and concerns %q", c, damage, c.Keys)
		default:
			follow++
		}
	})
	if damage != 1 || follow == 0 {
		t.Errorf("%d findings and %d follow-ups", damage, follow)
	}
}

// TestDamageOfAPageConcernsItsKeys: of a damaged page the keys around are named, not all of its chunk's,
// which may be a whole keyspace. Each page is named, though one read fails at the first of them. The
// chunk behind is sound.
func TestDamageOfAPageConcernsItsKeys(t *testing.T) {
	const n, pages = 4000, 3
	fsys := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: fsys, Keys: drawnKeys(t), Maintenance: brock.Maintenance{IdleAfter: time.Hour, ScrubEvery: -1}}
	db := must2(brock.Open(o))
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		ks := keyspace(t, db, name)
		must(t, db.Update(func(txn *brock.Txn) error {
			for i := range n {
				must(t, txn.In(ks).Set(damagedKey(i), bytes.Repeat([]byte{byte(i)}, 100)))
			}
			return nil
		}))
	}
	must(t, db.Compact(t.Context()))
	must(t, db.Close())
	run := filesOf(t, fsys, ".run")[0]
	for i := range pages {
		for off := range 4 {
			flipAt(t, fsys, run, 200<<10+i*40<<10+off)
		}
	}
	db = must2(brock.Open(o))
	defer db.Close()
	var found []*brock.CorruptionError
	_ = db.Verify(t.Context(), func(c *brock.CorruptionError) {
		if !c.FollowUp {
			found = append(found, c)
		}
	})
	if len(found) != pages {
		t.Errorf("%d findings: %v", len(found), found)
	}
	for _, name := range names {
		ks, concerned := keyspace(t, db, name), 0
		for i := range n {
			_, err := ks.Get(damagedKey(i))
			named := slices.ContainsFunc(found, func(c *brock.CorruptionError) bool { return inKeys(c, name, damagedKey(i)) })
			if err != nil && !named {
				t.Errorf("key %d of %s is lost, and not named: %v", i, name, err)
			}
			if named {
				concerned++
			}
		}
		if concerned > pages*100 {
			t.Errorf("%d keys of %s are named for %d pages", concerned, name, pages)
		}
	}
}
