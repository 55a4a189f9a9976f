package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// On a full disk, making, changing and dropping a keyspace fails with ErrNoSpace and
// has no effect. The store goes on.
func TestKeyspacesOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	o := brock.Options{Dir: "/s", FS: fs}
	db, err := brock.Open(o)
	must(t, err)
	ks := keyspace(t, db, "a")
	must(t, ks.Set(b("k"), b("1")))
	options := ks.Options()
	full := func(what string, do func() error) {
		t.Helper()
		fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Err: faultfs.ErrNoSpace, Short: true})
		defer fs.Heal()
		if err := do(); !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
			t.Errorf("%s: %v", what, err)
		}
		wantEqual(t, "contents after "+what, contents(t, db), "; a: k=1")
		wantEqual(t, "options after "+what, ks.Options(), options)
	}
	full("make", func() error { _, err := db.Keyspace("b"); return err })
	full("options", func() error { return ks.SetOptions(brock.KeyspaceOptions{ValueThreshold: 9}) })
	full("drop", func() error { return ks.Drop(t.Context()) })
	must(t, ks.Set(b("k"), b("2")))
	must(t, db.DropAll(t.Context()))
	must(t, ks.Set(b("k"), b("3")))
	must(t, db.Compact(t.Context()))
	wantEqual(t, "contents", contents(t, db), "; a: k=3")
	b2 := keyspace(t, db, "b")
	must(t, b2.Set(b("k"), b("4")))
	must(t, ks.Drop(t.Context()))
	for range 2 {
		wantEqual(t, "contents in the end", contents(t, db), "; b: k=4")
		must(t, db.Verify(t.Context(), nil))
		must(t, db.Close())
		db, err = brock.Open(o)
		must(t, err)
	}
	must(t, db.Close())
}

// Drop makes what was committed before durable. If the manifest has no room for that,
// the keyspace is as it was, through the handle that was used and through others.
func TestDropThatCannotSync(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Durability: brock.Buffered})
	must(t, err)
	ks := keyspace(t, db, "a")
	must(t, ks.Set(b("k"), b("1"))) // the journal has a segment that the manifest doesn't know
	fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Err: faultfs.ErrNoSpace, Short: true})
	if err := ks.Drop(t.Context()); !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
		t.Errorf("drop: %v", err)
	}
	fs.Heal()
	wantEqual(t, "contents", contents(t, db), "; a: k=1")
	for i, ks := range []*brock.Keyspace{ks, keyspace(t, db, "a")} {
		must(t, ks.Set(b("k"), fmt.Append(nil, i)))
		v, err := ks.Get(b("k"))
		must(t, err)
		wantEqual(t, "k", string(v), fmt.Sprint(i))
	}
	must(t, ks.Drop(t.Context()))
	wantEqual(t, "contents after the drop", contents(t, db), "")
	must(t, db.Close())
}
