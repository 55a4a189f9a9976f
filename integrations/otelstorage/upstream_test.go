package otelstorage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tests of other modules run over this extension. A copy of the module's source, as the module
// cache has it, gets one file of testdata/upstream in the place of the storage that it uses.

// upstream is a module whose tests are run.
type upstream struct {
	module   string            // path and version
	packages []string          // whose tests are run
	replaced string            // the file that is replaced
	by       string            // the file in testdata/upstream
	run      string            // tests that are run; "" = all
	skip     string            // tests that are not run
	fails    map[string]string // tests that fail, and why they must
	atLeast  int               // tests that pass
}

func TestUpstreamQueues(t *testing.T) {
	u := upstream{
		module:   "go.opentelemetry.io/collector/exporter/exporterhelper@v0.159.0",
		packages: []string{".", "./internal/queue", "./internal/queuebatch"},
		replaced: "internal/storagetest/mock_storage.go", by: "exporterhelper.go",
		atLeast: 346,
	}
	if testing.Short() {
		// Exporters and batches take long to compile, and this test passes two million items.
		u.packages, u.skip, u.atLeast = []string{"./internal/queue"}, "^TestPersistentBlockingQueue$", 40
	}
	u.check(t)
}

func TestUpstreamStorageTest(t *testing.T) {
	upstream{
		module:   "github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage@v0.159.0",
		packages: []string{"./storagetest"},
		replaced: "storagetest/client.go", by: "storagetest.go",
		atLeast: 21,
	}.check(t)
}

func TestUpstreamFileStorage(t *testing.T) {
	upstream{
		module:   "github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage@v0.159.0",
		packages: []string{"."},
		replaced: "client.go", by: "filestorage.go",
		run: "^(TestClientOperations|TestClientBatchOperations|TestBatchInvalidOperationType|TestWalk|" +
			"TestExtensionIntegrity|TestClientHandlesSimpleCases|TestTwoClientsWithDifferentNames|" +
			"TestComponentNameWithUnsafeCharacters|TestHashing)$",
		skip:    "^TestWalk$/^uninitialized_bucket$", // deletes the bucket by bbolt
		atLeast: 22,
	}.check(t)
}

// check runs the tests of a module, and fails if one fails that should not, or the other way round.
func (u upstream) check(t *testing.T) {
	t.Parallel()
	dir := u.copyModule(t)
	args := []string{"test", "-json", "-count=1", "-timeout=20m", "-vet=off"}
	if u.run != "" {
		args = append(args, "-run", u.run)
	}
	if u.skip != "" {
		args = append(args, "-skip", u.skip)
	}
	out, err := u.goCommand(dir, append(args, u.packages...)...)
	results := parseResults(t, out)
	count := make(map[string]int)
	for name, result := range results {
		count[result]++
		if why, known := u.fails[name]; result == "fail" && !known {
			t.Errorf("%s fails", name)
		} else if result != "fail" && known {
			t.Errorf("%s %ses, but is said to fail: %s", name, result, why)
		}
	}
	t.Logf("%s: %v", u.module, count)
	if count["pass"] < u.atLeast {
		t.Errorf("only %d tests pass, and not at least %d", count["pass"], u.atLeast)
	}
	if (err != nil) != (len(u.fails) > 0) || t.Failed() {
		t.Errorf("go test: %v\n%s", err, textOf(out))
	}
}

// copyModule copies the module into a directory, makes it use this one, and returns the directory.
func (u upstream) copyModule(t *testing.T) string {
	t.Helper()
	out, err := u.goCommand(".", "mod", "download", "-json", u.module)
	var download struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &download); err != nil || jsonErr != nil {
		t.Fatalf("%s: %v %s\n%s", u.module, err, download.Error, out)
	}
	dir := filepath.Join(t.TempDir(), "module")
	if err := os.CopyFS(dir, os.DirFS(download.Dir)); err != nil {
		t.Fatal(err)
	}
	makeWritable(t, dir)
	replacement, err := os.ReadFile(filepath.Join("testdata", "upstream", u.by))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, u.replaced), replacement, 0o600); err != nil {
		t.Fatal(err)
	}
	u.editModFile(t, dir)
	return dir
}

// The module cache is read-only, and so is a copy of it.
func makeWritable(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

var replaceLines = regexp.MustCompile(`(?m)^replace .*\n`)

// editModFile makes the module depend on this one, and on other modules as they are published.
func (u upstream) editModFile(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	text = replaceLines.ReplaceAll(text, nil)
	const path = "github.com/brockdb/brock"
	text = append(text, "\nrequire (\n\t"+path+" v0.0.0\n\t"+path+"/integrations/otelstorage v0.0.0\n)\n"+
		"replace "+path+" => "+filepath.Join(here, "..", "..")+"\n"+
		"replace "+path+"/integrations/otelstorage => "+here+"\n"...)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// Sums of both, as either module alone lacks some that the other has.
	var sums []string
	for _, file := range []string{filepath.Join(dir, "go.sum"), "go.sum"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, strings.SplitAfter(string(text), "\n")...)
	}
	slices.Sort(sums)
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(strings.Join(slices.Compact(sums), "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goCommand runs the go command in a directory, and returns what it prints.
func (u upstream) goCommand(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if dir != "." {
		// -mod=mod: go.mod of the copy lacks what this module needs. Flags stay, so that what this test
		// was compiled of is not compiled again.
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "TMPDIR="+filepath.Dir(dir))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// parseResults returns how each test has ended: pass, fail or skip.
func parseResults(t *testing.T, out []byte) map[string]string {
	t.Helper()
	results := make(map[string]string)
	for e := range events(out) {
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			results[e.Package+"."+e.Test] = e.Action
		}
	}
	return results
}

func events(out []byte) func(func(event) bool) {
	return func(yield func(event) bool) {
		lines := bufio.NewScanner(bytes.NewReader(out))
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var e event
			// What is no JSON comes from the go command itself.
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				e.Output = lines.Text() + "\n"
			}
			if !yield(e) {
				return
			}
		}
	}
}

// textOf returns the output of tests that did not pass, and of the go command.
func textOf(out []byte) string {
	printed := make(map[string]string)
	for e := range events(out) {
		if e.Action == "pass" {
			delete(printed, e.Package+e.Test)
		} else {
			printed[e.Package+e.Test] += e.Output
		}
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(printed)) {
		all.WriteString(printed[name])
	}
	return all.String()
}
