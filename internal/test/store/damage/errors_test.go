// Package damage tests that damaged files are found and told of, never copied, and read up to the
// damage.
package damage

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

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
	fsys, o := storetest.MakeLayeredStore(t)
	for _, name := range append(storetest.ListFiles(t, fsys, ".run"), storetest.ListFiles(t, fsys, ".val")...) {
		storetest.FlipBit(t, fsys, name, len(storetest.ReadFile(t, fsys, name))/2)
	}
	db := assert.Must(brock.Open(o))
	defer db.Close()
	failed := 0
	for _, ks := range []*brock.Keyspace{storetest.OpenKeyspace(t, db, "one"), storetest.OpenKeyspace(t, db, "two")} {
		for i := range storetest.LayeredKeys {
			var c *brock.CorruptionError
			_, err := ks.Get(storetest.LayeredKey(i))
			if !errors.As(err, &c) {
				continue
			}
			if failed++; !inKeys(c, ks.Name(), storetest.LayeredKey(i)) {
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
	fsys, o := storetest.MakeLayeredStore(t)
	name := storetest.ListFiles(t, fsys, ".run")[0]
	at := len(storetest.ReadFile(t, fsys, name)) / 2
	for i := range 4 {
		storetest.FlipBit(t, fsys, name, at+i)
	}
	db := assert.Must(brock.Open(o))
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
	o := brock.Options{Dir: "db", FS: fsys, Keys: storetest.DrawKeys(t), Maintenance: brock.Maintenance{IdleAfter: time.Hour, ScrubEvery: -1}}
	db := assert.Must(brock.Open(o))
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		ks := storetest.OpenKeyspace(t, db, name)
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for i := range n {
				assert.OK(t, txn.In(ks).Set(storetest.LayeredKey(i), bytes.Repeat([]byte{byte(i)}, 100)))
			}
			return nil
		}))
	}
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.Close())
	run := storetest.ListFiles(t, fsys, ".run")[0]
	for i := range pages {
		for off := range 4 {
			storetest.FlipBit(t, fsys, run, 200<<10+i*40<<10+off)
		}
	}
	db = assert.Must(brock.Open(o))
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
		ks, concerned := storetest.OpenKeyspace(t, db, name), 0
		for i := range n {
			_, err := ks.Get(storetest.LayeredKey(i))
			named := slices.ContainsFunc(found, func(c *brock.CorruptionError) bool { return inKeys(c, name, storetest.LayeredKey(i)) })
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
