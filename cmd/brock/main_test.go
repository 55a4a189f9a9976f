package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// beMain has the test binary be the command: the tests run it as a process, as
// try does with the one that it kills.
const beMain = "BROCK_TEST_MAIN"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == peersProgram {
		peersMain(os.Getenv(bePeers))
	}
	if os.Getenv(beMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is the command, about to run in a directory.
func process(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), beMain+"=1")
	return cmd
}

// progressLine is what a command prints that takes more than a second, as on a busy machine.
var progressLine = regexp.MustCompile(`(?m)^[^:\n]+: (\d+% of [^\n]+ left|[^\n]+/s|\d+s)\n`)

// result is what a run of the command left, without lines of progress.
type result struct {
	out, err string
	code     int
}

func brockIn(t *testing.T, dir, input string, args ...string) result {
	t.Helper()
	cmd := process(t, dir, args...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &err
	failure := cmd.Run()
	var exit *exec.ExitError
	if failure != nil && !errors.As(failure, &exit) {
		t.Fatal(failure)
	}
	return result{out.String(), progressLine.ReplaceAllString(err.String(), ""), cmd.ProcessState.ExitCode()}
}

// must runs a command that succeeds, and returns its output.
func must(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	r := brockIn(t, dir, input, args...)
	if r.code != exitOK {
		t.Fatalf("brock %s: exit code %d, %s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// TestSignals: each signal that ends a command ends it in order, also while it waits for its input.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signal can be sent to a process")
	}
	for _, s := range endings() {
		for _, args := range [][]string{{"load", "new", "-"}, {"set", "new", "k", "-"}} {
			t.Run(fmt.Sprint(s, args), func(t *testing.T) {
				dir := t.TempDir()
				said := signalled(t, dir, s, "", args...)
				if left := list(t, dir); said != "brock: interrupted\n" || left != "" {
					t.Errorf("it said %s, and left %s", said, left)
				}
			})
		}
	}
	dir := t.TempDir()
	pairs := strings.Repeat(`{"key":"k","value":"`+strings.Repeat("v", 10_000)+"\"}\n", 3000)
	if said := signalled(t, dir, os.Interrupt, pairs, "load", "new", "-"); !strings.Contains(said, "3,000 pairs stored; the rest is not") {
		t.Errorf("a load of much said %s", said)
	}
	if out := must(t, dir, "", "count", "new"); out != "1\n" {
		t.Errorf("it has stored %s", out)
	}
}

// signalled sends a signal to a command that has read input, and waits for the end of a long
// line. It returns what the command has said.
func signalled(t *testing.T, dir string, s os.Signal, input string, args ...string) string {
	t.Helper()
	cmd := process(t, dir, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The line is longer than what a pipe holds: it is being read once the write returns.
	if _, err := io.WriteString(in, input+`{"key":"`+strings.Repeat("k", 300_000)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its error is the exit code
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("%v: exit code %d", s, code)
	}
	return progressLine.ReplaceAllString(said.String(), "")
}

// writeFile writes a file below dir, and the directories above it.
func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
