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

var suite = flag.Bool("suite", false, "run all of raft's own tests over this store; some minutes")

// suiteShort are the tests of raft's suite that run without -suite: they ask most of a store.
const suiteShort = "^(TestRaft_RestoreCommittedLogs.*|TestRaft_RestoreSnapshotOnStartup.*|TestRaft_SnapshotRestore|" +
	"TestRaft_UserRestore|TestRaft_RecoverCluster.*|TestRaft_HasExistingState|TestRaft_RestoreRemotely|" +
	"TestRaft_InstallSnapshot.*|TestLogCache|TestOldestLog|TestRaft_TripleNode|TestRaft_BehindFollower)$"

// TestRaftSuite runs raft's own tests over this store, in a copy of raft in which the stores of
// the tests are replaced: once as stores with gaps, once as monotonic ones.
func TestRaftSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles raft's tests")
	}
	copied := copyRaft(t)
	for _, c := range []struct {
		name, env, skip string
		file            string
	}{
		{name: "gaps", env: "BROCK_RAFT_GAPS=1"},
		// The one left out asserts that a store of the tests is not monotonic.
		{name: "monotonic", env: "BROCK_RAFT_GAPS=", skip: "^TestRaft_LogStoreIsMonotonic$", file: "monotonic.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.file != "" {
				assert.OK(t, os.WriteFile(filepath.Join(copied, c.file), assert.Must(os.ReadFile("testdata/suite/"+c.file+".txt")), 0o600))
			}
			args := []string{"test", "-json", "-vet=off", "-timeout=30m", "-skip=" + c.skip}
			if !*suite {
				args = append(args, "-run="+suiteShort)
			}
			runSuite(t, copied, c.env, args)
		})
	}
}

// copyRaft copies the module of raft, replaces its store, and returns the copy's directory.
func copyRaft(t *testing.T) string {
	from := strings.TrimSpace(string(runGo(t, ".", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/raft")))
	to := filepath.Join(t.TempDir(), "raft")
	assert.OK(t, os.CopyFS(to, os.DirFS(from)))
	// Files of the module cache can't be written to, and nor can copies of them.
	assert.OK(t, filepath.WalkDir(to, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(name, 0o600)
		}
		return err
	}))
	write := func(name string, text []byte) { assert.OK(t, os.WriteFile(filepath.Join(to, name), text, 0o600)) }
	write("inmem_store.go", assert.Must(os.ReadFile("testdata/suite/inmem_store.go.txt")))
	write("brock_store_test.go", assert.Must(os.ReadFile("testdata/suite/store_test.go.txt")))
	sums := assert.Must(os.ReadFile(filepath.Join(to, "go.sum")))
	write("go.sum", append(sums, assert.Must(os.ReadFile("go.sum"))...))
	here := assert.Must(filepath.Abs("."))
	runGo(t, to, "mod", "edit",
		"-require=github.com/brockdb/brock@v0.0.0", "-replace=github.com/brockdb/brock="+filepath.Join(here, "../.."),
		"-require=github.com/brockdb/brock/integrations/raft@v0.0.0", "-replace=github.com/brockdb/brock/integrations/raft="+here)
	return to
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

// runSuite runs tests of raft, and fails if one of them does.
func runSuite(t *testing.T, dir, env string, args []string) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", env)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output() // an error is also that a test has failed
	counts, failed, printed := map[string]int{}, []string(nil), map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			printed[""] = append(printed[""], lines.Text()+"\n")
			continue
		}
		if e.Output != "" {
			printed[e.Test] = append(printed[e.Test], e.Output)
		}
		if e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		counts[e.Action]++
		if e.Action == "fail" {
			failed = append(failed, e.Test)
		}
	}
	assert.OK(t, lines.Err())
	slices.Sort(failed)
	for _, name := range failed {
		text := strings.Join(printed[name], "")
		t.Errorf("%s of raft:\n%s", name, text[max(0, len(text)-4000):])
	}
	if err != nil && len(failed) == 0 || counts["pass"] == 0 {
		t.Fatalf("raft's tests: %v\n%s%s", err, &said, strings.Join(printed[""], ""))
	}
	t.Logf("of raft's tests %d passed, %d failed, %d were skipped", counts["pass"], counts["fail"], counts["skip"])
}
