package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/test/kit/deadline"
)

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// TestBench: all steps measure something, the store is left as it was, and the scratch
// store is removed.
func TestBench(t *testing.T) {
	dir := makeStore(t)
	before := contents(t, dir)
	var r benchReport
	if err := json.Unmarshal([]byte(must(t, "", "", "bench", dir, "--time=20ms", "--json", "--seed=7")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != 8 || r.Seed != 7 || r.Sample.Keys != 200 {
		t.Errorf("%+v", r)
	}
	for _, s := range r.Steps {
		if s.Ops == 0 || s.Took <= 0 || s.P50 > s.P99 || s.Bytes == 0 && !strings.Contains(s.Name, "absent") {
			t.Errorf("%+v", s)
		}
	}
	for name, content := range contents(t, dir) {
		if before[name] != content {
			t.Errorf("%s was written to", name)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
	scratch := filepath.Join(t.TempDir(), "none")
	if r := brockIn(t, "", "", "bench", dir, "--time=1ms", "--scratch", scratch); r.code != exitFailed {
		t.Errorf("no scratch directory: exit code %d, %s", r.code, r.err)
	}
	if out := must(t, "", "", "bench", dir, "--time=1ms"); !strings.Contains(out, "bulk load") || !strings.Contains(out, "Keys: 200, drawn of all keys") {
		t.Error(out)
	}
}

func TestBenchRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "keyspaces", "create", "s", "empty")
	for _, test := range []struct {
		args    string
		code    int
		message string
	}{
		{"bench s", exitInput, "there is nothing in it"},
		{"bench s --keyspace=empty", exitInput, "there is nothing in it"},
		{"bench s --keyspace=none", exitNotFound, `no keyspace "none"`},
		{"bench nowhere", exitFailed, "no store in nowhere"},
		{"bench s --time=0s", exitUsage, "--time"},
	} {
		if r := brockIn(t, dir, "", strings.Fields(test.args)...); r.code != test.code || !strings.Contains(r.err, test.message) {
			t.Errorf("%s: exit code %d, %s", test.args, r.code, r.err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestBenchInterrupted: the scratch store is removed when the user ends the command.
func TestBenchInterrupted(t *testing.T) {
	dir := makeStore(t)
	stores := func() int {
		found, err := os.ReadDir(filepath.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	var code int
	for took := 300 * time.Millisecond; ; took *= 4 { // on a busy machine it may end first
		cmd := process(t, "", "bench", dir, "--time="+took.String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		deadline.Wait(t, "it writes, or ends", func() bool {
			select {
			case <-ended:
				return true
			default:
				return stores() > 1
			}
		})
		if err := cmd.Process.Signal(os.Interrupt); runtime.GOOS == "windows" {
			t.Skip(err)
		}
		<-ended
		if code = cmd.ProcessState.ExitCode(); code != exitOK {
			break
		}
	}
	if n := stores(); n != 1 || code != exitInterrupted {
		t.Errorf("exit code %d, %d directories are left", code, n)
	}
}
