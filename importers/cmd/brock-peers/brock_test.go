package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestWithBrock: brock finds this program beside itself, and runs it; what brock exports as JSON lines,
// brock loads.
func TestWithBrock(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds both programs")
	}
	dir := t.TempDir()
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	for name, module := range map[string]string{"brock": "../../../cmd/brock", "brock-peers": "."} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, name+suffix), ".")
		build.Dir = module
		build.Env = append(build.Environ(), "GOWORK=off")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "brock"+suffix), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
			t.Fatalf("brock %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	db, err := bolt.Open(filepath.Join(dir, "a.bolt"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("a/b"))
		if err != nil {
			return err
		}
		if _, err := b.CreateBucket([]byte("\xff")); err != nil {
			return err
		}
		return b.Put([]byte("k"), []byte{0, 0xff})
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := run(exitInUse, "import", "bbolt", "a.bolt", "store"); strings.Count(out, "\n") != 1 {
		t.Errorf("a file in use: %s", out)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out := run(0, "import", "bbolt", "a.bolt", "store"); out != "store is a store: 1 pairs written, 1 compared, all equal\n" {
		t.Errorf("import: %s", out)
	}
	run(0, "import", "--verify", "bbolt", "a.bolt", "store")
	run(0, "export", "store", "all.jsonl")
	run(0, "load", "copy", "all.jsonl")
	run(0, "import", "--verify", "bbolt", "a.bolt", "copy")
	run(0, "set", "copy", "k", "v")
	if out := run(exitFailed, "import", "--verify", "bbolt", "a.bolt", "copy"); !strings.Contains(out, "the default keyspace has pairs, and the source has none") {
		t.Errorf("compare: %s", out)
	}
	if out := run(0, "export", "copy", "--bbolt", "b.bolt"); out != "b.bolt has 2 pairs in 3 buckets\n" {
		t.Errorf("export: %s", out)
	}
	run(exitUsage, "import", "bolt", "a.bolt", "other")
}
