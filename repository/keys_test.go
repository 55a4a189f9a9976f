package repository_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

// TestEncryptedRepository backs up an encrypted store again and again. Objects have nothing in
// clear, and files that don't change are neither read nor stored again. List, Verify and Prune
// need no keys; a restored store needs those of its source.
func TestEncryptedRepository(t *testing.T) {
	keys := brock.StaticKey(bytes.Repeat([]byte{1}, 32))
	s := newMemStore()
	db, err := brock.Open(brock.Options{
		Dir: t.TempDir() + "/store", FS: unsynced{vfs.OS()}, Keys: keys, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Versions: 3}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for i := range 5 {
		change(t, db, uint64(i), 1000)
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := backup(t, db, s)
	for i := range 5 {
		if err := db.Set([]byte("counter"), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if done := backup(t, db, s); done.ReadBytes > first.Bytes/5 || done.PutBytes > first.Bytes/5 {
			t.Errorf("backup %d has read %d bytes, and put %d, the first one %d", i, done.ReadBytes, done.PutBytes, first.PutBytes)
		}
	}
	verified(t, s)
	for name, p := range s.objects {
		if bytes.Contains(p, []byte("key 0")) || bytes.Contains(p, []byte("counter")) || bytes.Contains(p, []byte("other")) {
			t.Errorf("%s has keys or names in clear", name)
		}
	}
	want := contents(t, db)
	for name, given := range map[string]brock.KeyProvider{"with keys": keys, "without keys": nil} {
		mem := vfs.NewMem()
		if _, err := repository.Restore(t.Context(), s, "", "new", repository.RestoreOptions{FS: mem, Keys: given}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := brock.Open(brock.Options{Dir: "new", FS: mem, Keys: keys, MustExist: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := contents(t, again); got != want {
			t.Errorf("%s: the restored store has other contents", name)
		}
		if err := errors.Join(again.Verify(t.Context(), nil), again.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	mem := vfs.NewMem()
	_, err = repository.Restore(t.Context(), s, "", "new", repository.RestoreOptions{FS: mem, Keys: brock.StaticKey(make([]byte, 32))})
	if !errors.Is(err, brock.ErrKey) {
		t.Errorf("restored with another key: %v", err)
	}
	if _, err := mem.Stat("new"); err == nil {
		t.Error("restored with another key: something is left")
	}
}
