package keyspace

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// On a full disk, making, changing and dropping a keyspace fails with ErrNoSpace and
// has no effect. The store goes on.
func TestKeyspacesOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	o := brock.Options{Dir: "/s", FS: fs}
	db, err := brock.Open(o)
	assert.OK(t, err)
	ks := storetest.OpenKeyspace(t, db, "a")
	assert.OK(t, ks.Set([]byte("k"), []byte("1")))
	options := ks.Options()
	full := func(what string, do func() error) {
		t.Helper()
		fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Err: faultfs.ErrNoSpace, Short: true})
		defer fs.Heal()
		if err := do(); !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
			t.Errorf("%s: %v", what, err)
		}
		assert.Equal(t, "contents after "+what, storetest.ShowContents(t, db), "; a: k=1")
		assert.Equal(t, "options after "+what, ks.Options(), options)
	}
	full("make", func() error { _, err := db.Keyspace("b"); return err })
	full("options", func() error { return ks.SetOptions(brock.KeyspaceOptions{ValueThreshold: 9}) })
	full("drop", func() error { return ks.Drop(t.Context()) })
	assert.OK(t, ks.Set([]byte("k"), []byte("2")))
	assert.OK(t, db.DropAll(t.Context()))
	assert.OK(t, ks.Set([]byte("k"), []byte("3")))
	assert.OK(t, db.Compact(t.Context()))
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "; a: k=3")
	b2 := storetest.OpenKeyspace(t, db, "b")
	assert.OK(t, b2.Set([]byte("k"), []byte("4")))
	assert.OK(t, ks.Drop(t.Context()))
	for range 2 {
		assert.Equal(t, "contents in the end", storetest.ShowContents(t, db), "; b: k=4")
		assert.OK(t, db.Verify(t.Context(), nil))
		assert.OK(t, db.Close())
		db, err = brock.Open(o)
		assert.OK(t, err)
	}
	assert.OK(t, db.Close())
}

// Drop makes what was committed before durable. If the manifest has no room for that,
// the keyspace is as it was, through the handle that was used and through others.
func TestDropThatCannotSync(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Durability: brock.Buffered})
	assert.OK(t, err)
	ks := storetest.OpenKeyspace(t, db, "a")
	assert.OK(t, ks.Set([]byte("k"), []byte("1"))) // the journal has a segment that the manifest doesn't know
	fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Err: faultfs.ErrNoSpace, Short: true})
	if err := ks.Drop(t.Context()); !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
		t.Errorf("drop: %v", err)
	}
	fs.Heal()
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "; a: k=1")
	for i, ks := range []*brock.Keyspace{ks, storetest.OpenKeyspace(t, db, "a")} {
		assert.OK(t, ks.Set([]byte("k"), fmt.Append(nil, i)))
		v, err := ks.Get([]byte("k"))
		assert.OK(t, err)
		assert.Equal(t, "k", string(v), fmt.Sprint(i))
	}
	assert.OK(t, ks.Drop(t.Context()))
	assert.Equal(t, "contents after the drop", storetest.ShowContents(t, db), "")
	assert.OK(t, db.Close())
}
