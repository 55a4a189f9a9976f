package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// versionsOf lists all versions of all keyspaces of a store, a line each, and their options.
func versionsOf(t *testing.T, dir string) string {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir, KeyspaceDefaults: allVersions})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var b strings.Builder
	list := func(ks *brock.Keyspace) {
		fmt.Fprintf(&b, "%q %+v\n", ks.Name(), ks.Options())
		err := ks.View(func(txn *brock.Txn) error {
			for item, err := range txn.Items(brock.IteratorOptions{AllVersions: true}) {
				if err != nil {
					return err
				}
				value, err := item.Value()
				if err != nil && !item.Deleted() {
					return err
				}
				fmt.Fprintf(&b, "%q %d %q %v %d %v %v\n", item.Key(), item.Version(), value, item.Deleted(), item.Meta(), item.ExpiresAt().UnixMilli(), item.OnlyLatest())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	list(db.Default())
	for ks := range db.Keyspaces() {
		list(ks)
	}
	return b.String()
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makeHistory makes a store with a past in several keyspaces.
func makeHistory(t *testing.T, dir string) {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir, KeyspaceDefaults: allVersions, Durability: brock.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	kept := brock.KeyspaceOptions{Versions: brock.Retention{Age: math.MaxInt64}, TTL: 2 * time.Hour, Compression: brock.Zstd}
	ok(db.Set([]byte("a"), []byte("of the first commit")))
	z, err := db.Keyspace("z, made first", kept)
	ok(err)
	ok(db.Update(func(txn *brock.Txn) error {
		return txn.In(z).SetEntry(brock.NewEntry([]byte("\xff\x00"), []byte("\xfe binary")).WithMeta(200).WithExpiry(later))
	}))
	for i := range 20 {
		ok(db.Set([]byte("a"), fmt.Append(nil, i)))
	}
	m, err := db.Keyspace("\xff not text", brock.KeyspaceOptions{Versions: brock.Retention{Versions: 3, Age: -1}})
	ok(err)
	a, err := db.Keyspace("a, made last", kept)
	ok(err)
	_, err = db.Keyspace("empty")
	ok(err)
	ok(a.Set([]byte("k"), []byte(`{"n": 9007199254740993}`)))
	for i := range 10 {
		ok(m.Set(fmt.Append(nil, i%3), []byte(strings.Repeat("large ", 500*i))))
		ok(z.Set(fmt.Append(nil, i), nil))
	}
	ok(z.DeleteRange([]byte("2"), []byte("5")))
	ok(db.Delete([]byte("a")))
	ok(db.Update(func(txn *brock.Txn) error {
		return txn.SetEntry(&brock.Entry{Key: []byte("a"), Value: []byte("anew"), ExpiresAt: later, OnlyLatest: true})
	}))
	// One commit over keyspaces.
	ok(db.Update(func(txn *brock.Txn) error {
		for i := range 100 {
			if err := txn.In(z).Set(fmt.Append(nil, i), []byte("x")); err != nil {
				return err
			}
		}
		return txn.Set([]byte("b"), []byte("y"))
	}))
	ok(db.Flush(t.Context()))
	ok(a.Set([]byte("k"), []byte("in the journal")))
	ok(db.Close())
}

// TestHistoryGoesOutAndIn: a store that comes of the lines of another one has the same versions of the
// same keys, with values, meta bytes, times of expiry and options of keyspaces, and gives the same lines.
func TestHistoryGoesOutAndIn(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "s")
	makeHistory(t, store)
	want := versionsOf(t, store)
	must(t, dir, "", "export", "s", "all.jsonl", "--history")
	r := brockIn(t, dir, "", "load", "new", "all.jsonl", "--history")
	if r.code != exitOK {
		t.Fatalf("exit code %d, %s", r.code, r.err)
	}
	if got := versionsOf(t, filepath.Join(dir, "new")); got != want {
		t.Errorf("the store has\n%s\nwant\n%s", got, want)
	}
	must(t, dir, "", "export", "new", "again.jsonl", "--history")
	if readFile(t, dir, "again.jsonl") != readFile(t, dir, "all.jsonl") {
		t.Errorf("the lines differ:\n%s\n%s", readFile(t, dir, "all.jsonl"), readFile(t, dir, "again.jsonl"))
	}
	if n := strings.Count(readFile(t, dir, "all.jsonl"), `"deleted":true`); n < 4 {
		t.Errorf("%d deletes", n)
	}

	// One keyspace, from standard input into an encrypted store.
	out := must(t, dir, "", "export", "s", "--history", "--keyspace=a, made last")
	if lines := strings.Count(out, "\n"); lines != 3 {
		t.Errorf("%d lines:\n%s", lines, out)
	}
	must(t, dir, "", "keygen", "key")
	if r := brockIn(t, dir, out, "load", "one", "-", "--history", "--key-file=key"); r.code != exitOK || !strings.HasSuffix(r.err, "2 versions stored\n") {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
	if again := must(t, dir, "", "export", "one", "--history", "--key-file=key"); again != out {
		t.Errorf("%s\nwant\n%s", again, out)
	}

	for _, c := range []struct {
		in, args string
		code     int
		want     string
	}{
		{"", "load new all.jsonl --history", exitInput, "this one has versions up to"},
		{"", "load plain all.jsonl", exitInput, "load the file with --history"},
		{`{"key":"a","value":"b"}`, "load x - --history", exitInput, "no version"},
		{"{\"key\":\"a\",\"value\":\"b\",\"version\":5}\n{\"key\":\"a\",\"value\":\"b\",\"version\":4}", "load x - --history", exitInput, "versions must rise"},
		{`{"keyspace":"k","key":"a","value":"b","version":1}`, "load x - --history", exitInput, "has no section"},
		{"{\"keyspace\":\"k\"}\n" + `{"keyspace":"k","key":"a","value":"b","version":1}`, "load x - --history", exitInput, "no version is free"},
		{`{"key":"a","value":"b","version":1,"deleted":true}`, "load x - --history", exitInput, "goes with a key"},
		{"", "load x - --history --sorted", exitUsage, "--history goes with no"},
		{"", "export s --bbolt=f --history", exitUsage, "a bbolt file gets"},
	} {
		if r := brockIn(t, dir, c.in, strings.Fields(c.args)...); r.code != c.code || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, r.code, r.err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "x")); err != nil {
			t.Fatal(err)
		}
	}
}
