package repository_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestRepositoryAcrossRotateKey: each backup of a repository is restored by the keys of its time,
// and by the newest ones as long as they have the master key of that time.
func TestRepositoryAcrossRotateKey(t *testing.T) {
	keys := t.TempDir()
	file := func(name string) string { return filepath.Join(keys, name) }
	lines := []string{
		"first " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)) + "\n",
		"second " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, 32)) + "\n",
	}
	for name, text := range map[string]string{"now": lines[0], "first": lines[0], "second": lines[1]} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newMemStore()
	all := brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}
	db, err := brock.Open(brock.Options{Dir: t.TempDir() + "/store", FS: unsynced{vfs.OS()}, Keys: brock.KeyFile(file("now")), KeyspaceDefaults: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var ids, wants []string
	for round, o := range []brock.RotateOptions{{Master: true}, {}, {Rewrite: true}, {Master: true}, {Rewrite: true}} {
		if round == 3 {
			if err := os.WriteFile(file("now"), []byte(lines[0]+lines[1]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.RotateKey(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		change(t, db, uint64(round), 300)
		ids, wants = append(ids, backup(t, db, s).ID), append(wants, contents(t, db))
	}
	verified(t, s)
	for round, id := range ids {
		for name, fits := range map[string]bool{"now": true, "first": round < 3, "second": round >= 3} {
			mem := vfs.NewMem()
			_, err := repository.Restore(t.Context(), s, id, "new", repository.RestoreOptions{FS: mem, Keys: brock.KeyFile(file(name))})
			if !fits {
				if !errors.Is(err, brock.ErrKey) {
					t.Errorf("backup %d by the keys in %s: %v", round, name, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("backup %d by the keys in %s: %v", round, name, err)
			}
			again, err := brock.Open(brock.Options{Dir: "new", FS: mem, Keys: brock.KeyFile(file(name)), MustExist: true, KeyspaceDefaults: all})
			if err != nil {
				t.Fatalf("backup %d by the keys in %s: %v", round, name, err)
			}
			if contents(t, again) != wants[round] {
				t.Errorf("backup %d has other contents", round)
			}
			if err := errors.Join(again.Verify(t.Context(), nil), again.Close()); err != nil {
				t.Errorf("backup %d: %v", round, err)
			}
		}
	}
}

// TestBackupAfterAnotherProvider: after RotateKey with another provider, Options of the open store
// has that one, and Backup uses it.
func TestBackupAfterAnotherProvider(t *testing.T) {
	before, after := brock.StaticKey(bytes.Repeat([]byte{1}, 32)), brock.StaticKey(bytes.Repeat([]byte{2}, 32))
	for _, o := range []brock.RotateOptions{{}, {Master: true}, {Rewrite: true}} {
		db, err := brock.Open(brock.Options{Dir: t.TempDir() + "/store", FS: unsynced{vfs.OS()}, Keys: before})
		if err != nil {
			t.Fatal(err)
		}
		s := newMemStore()
		change(t, db, 1, 300)
		o.Keys = after
		if err := db.RotateKey(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got := db.Options().Keys; got != after {
			t.Errorf("%+v: Options has not the new provider", o)
		}
		id := backup(t, db, s).ID
		verified(t, s)
		_, err = repository.Restore(t.Context(), s, id, "new", repository.RestoreOptions{FS: vfs.NewMem(), Keys: after})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
