package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock/importers"
)

// peers runs a command line.
func peers(t *testing.T, args ...string) (out, said string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	a := &app{ctx: t.Context(), out: &o, err: &e, progress: &progress{w: &e, now: time.Now}}
	code = a.run(args)
	return o.String(), e.String(), code
}

// TestCommands: a bbolt file goes in and out; exit codes are those of brock.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file, store, back := filepath.Join(dir, "a.bolt"), filepath.Join(dir, "store"), filepath.Join(dir, "back.bolt")
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("users"))
		for i := range 3 {
			if err == nil {
				err = b.Put(fmt.Append(nil, i), []byte("value"))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, said, code := peers(t, "import", "bbolt", file, store); code != exitInUse || !strings.Contains(said, "in use by another process") {
		t.Errorf("a file in use: exit code %d, %s", code, said)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string // in the output, or in what is said
	}{
		{"import bbolt FILE STORE", 0, "STORE is a store: 3 pairs written, 3 compared, all equal\n"},
		{"import bbolt FILE STORE", exitFailed, "STORE is not empty, and no unfinished import"},
		{"compare bbolt FILE STORE", 0, "3 pairs compared, all equal\n"},
		{"compare leveldb FILE STORE", exitFailed, "FILE"},
		{"export STORE BACK", 0, "BACK has 3 pairs in 1 buckets\n"},
		{"export STORE BACK", exitFailed, "is not empty"},
		{"compare bbolt BACK STORE", 0, "all equal"},
		{"import bbolt absent other", exitFailed, "no such file"},
		{"import bolt FILE other", exitUsage, "badger4"},
		{"import bbolt FILE other --history", exitUsage, "only Badger keeps versions"},
		{"", exitUsage, "expected one of"},
		{"export absent other", exitFailed, "absent"},
		{"import bbolt FILE " + strings.Repeat("x", 300), exitFailed, "too long"},
	} {
		args := strings.NewReplacer("FILE", file, "STORE", store, "BACK", back).Replace(c.args)
		out, said, code := peers(t, strings.Fields(args)...)
		want := strings.NewReplacer("FILE", file, "STORE", store, "BACK", back).Replace(c.want)
		if code != c.code || !strings.Contains(out+said, want) {
			t.Errorf("%s: exit code %d, %s%s", c.args, code, out, said)
		}
	}
}

// TestKeyFile: the key of an encrypted store of Badger may end in a newline.
func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	key := []byte("0123456789abcdef")
	source := filepath.Join(dir, "source")
	db, err := badger.Open(badger.DefaultOptions(source).WithLogger(nil).WithEncryptionKey(key).WithIndexCacheSize(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("k"), fmt.Append(nil, i)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{string(key), string(key) + "\n"} {
		name := filepath.Join(dir, "key")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		out, said, code := peers(t, "import", "badger4", source, filepath.Join(dir, fmt.Sprint(i)), "--source-key-file", name, "--history")
		if code != 0 || !strings.Contains(out, "3 versions written, 3 compared") {
			t.Errorf("exit code %d, %s%s", code, out, said)
		}
	}
	out, said, code := peers(t, "compare", "badger4", source, filepath.Join(dir, "0"))
	if code != exitFailed || !strings.Contains(said, "can't be read") {
		t.Errorf("without a key: exit code %d, %s%s", code, out, said)
	}
}

// TestInterrupted: what is not finished can be gone on with, and is said to.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "a.bolt"), filepath.Join(dir, "store")
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"a", "b"} {
			b, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			for i := range 50 {
				if err := b.Put(fmt.Appendf(nil, "%02d", i), make([]byte, 10_000)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out, said bytes.Buffer
	// The clock is asked when something has been imported.
	a := &app{ctx: ctx, out: &out, err: &said, progress: &progress{w: &said, now: func() time.Time { cancel(); return time.Now() }}}
	code := a.run([]string{"import", "bbolt", file, store})
	if code != exitInterrupted || said.String() != "the import is not finished: the same command goes on where it was\nbrock: interrupted\n" {
		t.Errorf("exit code %d, %s", code, said.String())
	}
	text, errors, code := peers(t, "import", "bbolt", file, store)
	if code != 0 || !strings.Contains(text, "100 compared, all equal") || !strings.Contains(errors, "an earlier import was gone on with") {
		t.Errorf("exit code %d, %s%s", code, text, errors)
	}
}

// TestProgress: a line now and then, with rate and time left; on a terminal one that is drawn again.
func TestProgress(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		p := &progress{w: &out, terminal: terminal, now: func() time.Time { return now }}
		for i := range 21 {
			p.show(importers.Progress{Step: "import", Bytes: int64(i) * 50_000_000, Total: 2_000_000_000})
			now = now.Add(500 * time.Millisecond)
		}
		p.show(importers.Progress{Step: "compare", Bytes: 0, Total: 7})
		p.end()
		want := "import: 5% of 2.00 GB, 100 MB/s, 19s left\nimport: 30% of 2.00 GB, 100 MB/s, 14s left\n"
		if got := out.String(); !terminal && got != want {
			t.Errorf("%q", got)
		} else if terminal && (strings.Count(got, "\n") > 0 || !strings.Contains(got, "  import: 50% of 2.00 GB, 100 MB/s, 10s left") || !strings.HasSuffix(got, "\r\x1b[K")) {
			t.Errorf("%q", got)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678"} {
		if got := count(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
