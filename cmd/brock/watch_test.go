package main

import (
	"encoding/json"
	"strings"
	"testing"
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
