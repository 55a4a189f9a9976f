package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// TestCommandsKeepHistory: what the default keyspace retains is known to its program alone. No
// command drops it, but gc, to which it can be named. What a command makes of a named keyspace
// keeps what its options say.
func TestCommandsKeepHistory(t *testing.T) {
	dir := t.TempDir()
	o := brock.Options{Dir: filepath.Join(dir, "s"), KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}}
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := db.Set([]byte("k"), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	second := db.Version() - 3
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	versions := func(store string, flags ...string) int {
		return strings.Count(must(t, dir, "", append([]string{"history", store, "k"}, flags...)...), "\n")
	}
	must(t, dir, "", "keygen", "keys")
	key := []string{"--key-file=keys"}
	for _, args := range [][]string{
		{"set", "s", "other", "v"},
		{"keyspaces", "create", "s", "ks"},
		{"keyspaces", "options", "s", "ks", "--ttl=1h"},
		{"checkpoint", "s", "copy"},
		{"backup", "s", "full"},
		{"restore", "full", "restored"},
		{"backup", "s", "--repository=r"},
		{"gc", "s", "--keep-for=1h"},
		{"gc", "s", "--versions=5"},
		{"stats", "s", "--watch", "--count=1", "--interval=10ms"},
		{"encrypt", "s", "--key-file=keys"},
		{"rekey", "s", "--key-file=keys", "--rewrite"},
	} {
		must(t, dir, "", args...)
		var flags []string
		if args[0] == "encrypt" || args[0] == "rekey" {
			flags = key
		}
		if n := versions("s", flags...); n != 5 {
			t.Fatalf("after %v: %d versions, want 5", args, n)
		}
	}
	for _, made := range []string{"copy", "restored"} {
		if n := versions(made); n != 5 {
			t.Errorf("%s has %d versions, want 5", made, n)
		}
	}
	if out := must(t, dir, "", "keyspaces", "options", "restored", "ks"); !strings.Contains(out, `"versions":1,"keepFor":"0s"`) {
		t.Errorf("ks has the options %s", out)
	}
	o.Dir = filepath.Join(dir, "restored")
	if db, err = brock.Open(o); err != nil {
		t.Fatal(err)
	}
	err = db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: second}, func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("k"))
		if err != nil {
			return err
		}
		if v, err := item.Value(); string(v) != "1" || err != nil {
			t.Errorf("version %d is %q, %v", second, v, err)
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Error(err)
	}
	must(t, dir, "", "gc", "restored")
	if n := versions("restored"); n != 1 {
		t.Errorf("after gc: %d versions", n)
	}
}
