package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// beMain has the test binary be the command: the tests run it as a process, as
// try does with the one that it kills.
const beMain = "BROCK_TEST_MAIN"

func TestMain(m *testing.M) {
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

// result is what a run of the command left.
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
	return result{out.String(), err.String(), cmd.ProcessState.ExitCode()}
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
		dir := t.TempDir()
		cmd := process(t, dir, "load", "new", "-")
		var said bytes.Buffer
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// This is more than a pipe holds: it is being read once Write returns.
		if _, err := in.Write([]byte(`{"key":"` + strings.Repeat("k", 300_000))); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its error is the exit code
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || said.String() != "brock: interrupted\n" {
			t.Errorf("%v: exit code %d, %s", s, code, &said)
		}
		if left := list(t, dir); left != "" {
			t.Errorf("%v has left %s", s, left)
		}
	}
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
