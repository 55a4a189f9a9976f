package brock

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// A Get that began before a drop, and reads after it, says that the keyspace is gone: what is left
// of it may be a part. So does that of a follower, whose View knows of the drop before its list of
// keyspaces does.
func TestGetBesideDrop(t *testing.T) {
	o := Options{Dir: "/store", FS: vfs.NewMem()}
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ks, err := db.Keyspace("gone")
	if err == nil {
		err = errors.Join(ks.Set([]byte("a"), []byte("1")), db.Flush(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Mode = Follow
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	followed, err := f.Keyspace("gone")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := followed.Get([]byte("a")); string(v) != "1" {
		t.Fatalf("before the drop: %q, %v", v, err)
	}
	if err := errors.Join(ks.Drop(t.Context()), db.Compact(t.Context())); err != nil {
		t.Fatal(err)
	}
	// The first half of Refresh.
	if _, err := f.source.Follower.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := followed.Get([]byte("a")); !errors.Is(err, ErrKeyspaceNotFound) {
		t.Errorf("Get of a follower: %q, %v", v, err)
	}
	if found, err := followed.Has([]byte("a")); !errors.Is(err, ErrKeyspaceNotFound) {
		t.Errorf("Has of a follower: %v, %v", found, err)
	}
	if _, err := f.Get([]byte("a")); !errors.Is(err, ErrKeyNotFound) {
		t.Errorf("Get of the default keyspace: %v", err)
	}
}
