package raftstore

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/assert"
)

var suite = flag.String("suite", suiteShort, "which of raft's own tests run over this store; ^Test: all of them, which take some minutes")

// suiteShort are the tests of raft's suite that run without -suite: they ask most of a store.
const suiteShort = "^(TestRaft_RestoreCommittedLogs.*|TestRaft_RestoreSnapshotOnStartup.*|TestRaft_SnapshotRestore|" +
	"TestRaft_UserRestore|TestRaft_RecoverCluster.*|TestRaft_HasExistingState|TestRaft_RestoreRemotely|" +
	"TestRaft_InstallSnapshot.*|TestLogCache|TestOldestLog|TestRaft_TripleNode|TestRaft_BehindFollower)$"

// suiteRuns is how often a test of raft may run. Its tests have time-outs of 50 ms, so on a busy machine
// many of them fail now and then: over raft's own store, too.
const suiteRuns = 5

// TestRaftSuite runs raft's own tests over this store, in a copy of raft in which the stores of
// the tests are replaced: once as stores with gaps, once as monotonic ones. A test that fails runs
// again. One that fails each time counts, unless it does so over raft's own store, too.
func TestRaftSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles raft's tests")
	}
	for _, c := range []struct {
		name, env, skip string
		file            string
	}{
		{name: "gaps", env: "BROCK_RAFT_GAPS=1"},
		// What is left out asserts that a store of the tests is not monotonic.
		{name: "monotonic", env: "BROCK_RAFT_GAPS=", skip: "^TestRaft_LogStoreIsMonotonic$|^TestRaft_UserRestore$/^case", file: "monotonic.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "raft")
			copyRaft(t, copied)
			replaceStore(t, copied)
			if c.file != "" {
				assert.OK(t, os.WriteFile(filepath.Join(copied, c.file), assert.Must(os.ReadFile("testdata/suite/"+c.file+".txt")), 0o600))
			}
			failing, passed := runSuite(t, copied, *suite, c.skip, c.env)
			first := len(failing)
			for n := 1; n < suiteRuns && len(failing) > 0; n++ {
				var later []string
				failing, later = runSuite(t, copied, exactly(failing), c.skip, c.env)
				passed = append(passed, later...)
			}
			t.Logf("of raft's tests %d have passed, %d of them not in the first of %d runs", len(passed), first-len(failing), suiteRuns)
			if len(passed) == 0 {
				t.Error("none has passed")
			}
			checkFailing(t, failing)
		})
	}
}

// exactly returns the pattern that tests of these names have, and no others.
func exactly(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// checkFailing fails the test if one of raft's tests, all of which have failed, passes over raft's own
// store.
func checkFailing(t *testing.T, failing []string) {
	if len(failing) == 0 {
		return
	}
	original := filepath.Join(t.TempDir(), "original")
	copyRaft(t, original)
	still := failing
	for n := 0; n < suiteRuns && len(still) > 0; n++ {
		still, _ = runSuite(t, original, exactly(still), "", "")
	}
	for _, name := range failing {
		if slices.Contains(still, name) {
			t.Logf("%s fails over raft's own store, too", name)
		} else {
			t.Errorf("%s of raft fails over this store", name)
		}
	}
}

// copyRaft copies the module of raft.
func copyRaft(t *testing.T, to string) {
	from := strings.TrimSpace(string(runGo(t, ".", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/raft")))
	assert.OK(t, os.CopyFS(to, os.DirFS(from)))
	// Files of the module cache can't be written to, and nor can copies of them.
	assert.OK(t, filepath.WalkDir(to, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(name, 0o600)
		}
		return err
	}))
}

// replaceStore makes the tests of a copy of raft use our store.
func replaceStore(t *testing.T, to string) {
	write := func(name string, text []byte) { assert.OK(t, os.WriteFile(filepath.Join(to, name), text, 0o600)) }
	write("inmem_store.go", assert.Must(os.ReadFile("testdata/suite/inmem_store.go.txt")))
	write("brock_store_test.go", assert.Must(os.ReadFile("testdata/suite/store_test.go.txt")))
	sums := assert.Must(os.ReadFile(filepath.Join(to, "go.sum")))
	write("go.sum", append(sums, assert.Must(os.ReadFile("go.sum"))...))
	here := assert.Must(filepath.Abs("."))
	runGo(t, to, "mod", "edit",
		"-require=github.com/brockdb/brock@v0.0.0", "-replace=github.com/brockdb/brock="+filepath.Join(here, "../.."),
		"-require=github.com/brockdb/brock/integrations/raft@v0.0.0", "-replace=github.com/brockdb/brock/integrations/raft="+here)
}

// runGo runs a command of go in a directory, and returns what it prints.
func runGo(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &said)
	}
	return out
}

// runSuite runs tests of raft, and returns the names of those that fail and of those that pass. It logs
// what those print that fail.
func runSuite(t *testing.T, dir, run, skip, env string) (failed, passed []string) {
	cmd := exec.Command("go", "test", "-json", "-vet=off", "-timeout=30m", "-run="+run, "-skip="+skip)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "INTEG_TESTS=yes", env)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output() // an error is also that a test has failed
	printed := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			e.Output = lines.Text() + "\n"
		}
		name, _, sub := strings.Cut(e.Test, "/")
		// The end of it says why.
		printed[name] += e.Output
		printed[name] = printed[name][max(0, len(printed[name])-1500):]
		switch {
		case sub || name == "":
		case e.Action == "fail":
			failed = append(failed, name)
		case e.Action == "pass":
			passed = append(passed, name)
		}
	}
	assert.OK(t, lines.Err())
	if err != nil && len(failed) == 0 {
		t.Fatalf("raft's tests: %v\n%s%s", err, &said, printed[""])
	}
	for _, name := range failed {
		t.Logf("%s has failed:\n%s", name, printed[name])
	}
	return failed, passed
}
