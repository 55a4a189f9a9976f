package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// TestGc has a store with much garbage collected: it says truly what it freed, and
// loses nothing.
func TestGc(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	value := func(i, round int) []byte { return bytes.Repeat([]byte{byte(i), byte(round)}, 2000) }
	db, err := brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered,
		Maintenance: brock.Maintenance{GarbageRatio: 1, IdleAfter: time.Hour}}) // so that it leaves garbage
	if err != nil {
		t.Fatal(err)
	}
	const keys, rounds = 1000, 4
	for round := range rounds {
		for i := range keys {
			if err := db.Set(fmt.Appendf(nil, "key %04d", i), value(i, round)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	gc := func() (c collected) {
		t.Helper()
		r := brockIn(t, "", "", "gc", "--json", dir)
		if err := json.Unmarshal([]byte(r.out), &c); err != nil || r.code != exitOK {
			t.Fatalf("exit code %d, %s%s: %v", r.code, r.out, r.err, err)
		}
		return c
	}
	if c := gc(); c.Freed < keys*3000 || c.Freed != c.Before-c.After || c.After > c.Live*5/4+1<<20 || c.Live < keys*4000 {
		t.Errorf("%+v", c)
	}
	if c := gc(); c.Freed > 1<<20 {
		t.Errorf("the second time: %+v", c)
	}
	if r := brockIn(t, "", "", "gc", filepath.Join(dir, "none")); r.code == exitOK {
		t.Error("a store that is not there was collected")
	}
	if db, err = brock.Open(brock.Options{Dir: dir, Mode: brock.ReadOnly}); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if v, err := db.Get(fmt.Appendf(nil, "key %04d", i)); err != nil || !bytes.Equal(v, value(i, rounds-1)) {
			t.Fatalf("key %d: %d bytes, %v", i, len(v), err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
