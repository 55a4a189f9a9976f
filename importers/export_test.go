package importers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock"
)

// boltTree returns a line for each bucket, with its sequence, and for each pair.
func boltTree(t *testing.T, path string) (lines []string) {
	t.Helper()
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var walk func(at string, b *bolt.Bucket) error
	walk = func(at string, b *bolt.Bucket) error {
		lines = append(lines, fmt.Sprintf("%s sequence %d", at, b.Sequence()))
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return walk(fmt.Sprintf("%s %q", at, k), b.Bucket(k))
			}
			lines = append(lines, fmt.Sprintf("%s: %q = %q", at, k, v))
			return nil
		})
	}
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return walk(fmt.Sprintf("%q", name), b) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func open(t *testing.T, dir string) *brock.DB {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestBboltRoundTrip: a bbolt file that was imported and exported has the same buckets, sequences and
// pairs.
func TestBboltRoundTrip(t *testing.T) {
	f := fixtureNamed(t, "bbolt")
	dir := t.TempDir()
	o := Options{Peer: f.peer, Source: f.closed(t, dir), Store: brock.Options{Dir: filepath.Join(dir, "store")}}
	imports(t, o)
	out := filepath.Join(dir, "out.bolt")
	e, err := ExportBbolt(t.Context(), open(t, o.Store.Dir), out, ExportOptions{})
	if err != nil || len(e.Lost) > 0 || e.Buckets != len(boltBuckets()) {
		t.Fatalf("%v, %+v", err, e)
	}
	want, got := boltTree(t, o.Source), boltTree(t, out)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d lines became %d", len(want), len(got))
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("the first that differs: %.200s", want[i])
			}
		}
	}
}

// TestExport: pairs of the default keyspace go to a bucket; what bbolt can't keep is named; what would
// be lost is refused, and leaves no file.
func TestExport(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "store"))
	entry := brock.NewEntry([]byte("k"), []byte("v")).WithMeta(3).WithTTL(1e15)
	if err := db.Update(func(txn *brock.Txn) error { return txn.SetEntry(entry) }); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Keyspace("100%"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a.bolt")
	e, err := ExportBbolt(t.Context(), db, file, ExportOptions{})
	if err != nil || len(e.Lost) != 2 || e.Pairs != 1 || e.Buckets != 2 {
		t.Fatalf("%v, %+v", err, e)
	}
	if got := strings.Join(boltTree(t, file), "; "); got != `"100%" sequence 0; "default" sequence 0; "default": "k" = "v"` {
		t.Errorf("the file has %s", got)
	}
	if _, err := ExportBbolt(t.Context(), db, file, ExportOptions{}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a file that is there: %v", err)
	}
	refused := func(why string, fn func(*brock.Txn) error) {
		t.Helper()
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
		_, err := ExportBbolt(t.Context(), db, filepath.Join(dir, "b.bolt"), ExportOptions{})
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", why, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "b.bolt*")); err != nil || len(left) > 0 {
			t.Errorf("%s: it has left %q, %v", why, left, err)
		}
	}
	refused("an empty key", func(txn *brock.Txn) error { return txn.Set(nil, nil) })
	ks := func(name string) *brock.Keyspace {
		k, err := db.Keyspace(name)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if err := db.Delete(nil); err != nil {
		t.Fatal(err)
	}
	refused("a key with the name of a bucket", func(txn *brock.Txn) error {
		ks("a/b")
		return txn.In(ks("a")).Set([]byte("b"), nil)
	})
	if err := ks("a").Delete([]byte("b")); err != nil {
		t.Fatal(err)
	}
	refused("two keyspaces of one bucket", func(txn *brock.Txn) error { return txn.In(ks("default")).Set([]byte("k"), nil) })
	if _, err := ExportBbolt(t.Context(), db, filepath.Join(dir, "c.bolt"), ExportOptions{DefaultBucket: "main"}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ExportBbolt(ctx, db, filepath.Join(dir, "d.bolt"), ExportOptions{DefaultBucket: "main"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "d.bolt")); !os.IsNotExist(err) {
		t.Errorf("an interrupted export has left a file: %v", err)
	}
}
