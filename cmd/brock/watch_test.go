package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// TestWatchCommits: watch prints changes and positions, goes on behind a position, and follows a store.
func TestWatchCommits(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "store", "a", "1")
	position := func(out string) string {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var last watchLine
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Position == "" {
			t.Fatalf("%q ends without a position: %v", out, err)
		}
		return last.Position
	}
	out := must(t, dir, "", "watch", "store", "--once", "--snapshot")
	if !strings.HasPrefix(out, `{"version":1,"change":"set","pair":{"key":"a","value":"1"},"snapshot":true}`+"\n") {
		t.Errorf("snapshot %q", out)
	}
	at := position(out)
	must(t, dir, "", "set", "store", "b", "2")
	must(t, dir, "", "del", "store", "a")
	out = must(t, dir, "", "watch", "store", "--once", "--since", at)
	for _, want := range []string{`"change":"set","pair":{"key":"b","value":"2"}`, `"change":"delete","pair":{"key":"a"}`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %s", out, want)
		}
	}
	if out = must(t, dir, "", "watch", "store", "--once", "--prefix=b", "--keys", "--since", at); strings.Contains(out, `"a"`) || strings.Contains(out, "value") {
		t.Errorf("filtered %q", out)
	}
	for _, args := range [][]string{{"--since=no"}, {"--snapshot", "--since", at}, {"--since=9-0000000000000001"}} {
		if process(t, dir, append([]string{"watch", "store", "--once"}, args...)...).Run() == nil {
			t.Errorf("%q succeeds", args)
		}
	}
}

// TestCommandsAndHistory: the files that only the change feed needs belong to the store: verify and
// inspect know them, and what is made of the store by dump and load, backup or salvage has its pairs,
// with empty keys and greatest versions.
func TestCommandsAndHistory(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	db, err := brock.Open(brock.Options{Dir: store, FeedRetention: brock.FeedRetention{Bytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	ok := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 2 {
		ok(db.Set(nil, nil))
		l, err := db.Default().NewLoader(t.Context(), brock.LoadOptions{Sorted: true, Replace: true, MaxMemory: 1})
		ok(err)
		for i := range 1000 {
			if i > 0 {
				ok(l.Set(fmt.Appendf(nil, "%d key %04d", round, i), make([]byte, 1000)))
			} else {
				ok(l.Set(nil, []byte("empty")))
			}
		}
		_, err = l.Finish()
		ok(err, db.AdvanceVersion(t.Context(), db.Version()+1<<40), db.Compact(t.Context()))
	}
	want := brock.MaxCommitAt
	ok(db.AdvanceVersion(t.Context(), brock.MaxCommitAt), db.Close())
	out := must(t, dir, "", "inspect", "store")
	if !strings.Contains(out, "history, which brock watch reads") || strings.Contains(out, "left over") || strings.Contains(out, "missing") {
		t.Error(out)
	}
	must(t, dir, "", "verify", "store")
	if out := must(t, dir, "", "watch", "store", "--once", "--snapshot", "--keys"); !strings.Contains(out, fmt.Sprintf(`"version":%d`, want)) {
		t.Errorf("%.300q", out)
	}
	dump := must(t, dir, "", "dump", "store")
	must(t, dir, dump, "load", "--sorted", "--format=jsonl", "loaded", "-")
	must(t, dir, "", "backup", "store", "b")
	must(t, dir, "", "restore", "b", "restored")
	must(t, dir, "", "backup", "store", "--repository=repository")
	must(t, dir, "", "salvage", "store", "salvaged")
	for _, made := range []string{"loaded", "restored", "salvaged"} {
		if got := must(t, dir, "", "dump", made); got != dump {
			t.Errorf("%s: %d and %d bytes", made, len(got), len(dump))
		}
		if out := must(t, dir, "", "get", made, ""); out != "empty" {
			t.Errorf("%s: %q", made, out)
		}
		must(t, dir, "", "verify", made)
	}
}
