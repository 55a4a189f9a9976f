package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

// TestExitCodes: the codes are a promise to scripts.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{absentStore("d", brock.ErrNotExist), 1},
		{brock.ErrForeign, 1},
		{wrongUsage("so"), 2},
		{brock.ErrKeyTooLarge, 2},
		{brock.ErrKeyNotFound, 3},
		{absentKeyspace{"k", brock.ErrKeyspaceNotFound}, 3},
		{&brock.CorruptionError{}, 4},
		{silent{&brock.CorruptionError{}}, 4},
		{brock.ErrLocked, 5},
		{&pairs.SyntaxError{}, 6},
		{context.Canceled, 130},
		{errors.Join(errors.New("close"), &brock.CorruptionError{}), 4},
	} {
		if got := exitCode(test.err); got != test.code {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.code)
		}
	}
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range strings.Split(strings.TrimPrefix(strings.TrimSuffix(exitCodes, "."), "Exit codes: "), ", ") {
		number, meaning, _ := strings.Cut(code, " ")
		if row := fmt.Sprintf("| %s | %s", number, meaning); !strings.Contains(string(guide), row) {
			t.Errorf("the guide has no row %q", row)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("open d: %w", fmt.Errorf("brock: so: %w", brock.ErrInvalid)), "open d: so"},
		{fmt.Errorf("open d: %w: values are elsewhere", brock.ErrInvalid), "open d: values are elsewhere"},
		{fmt.Errorf("open d: %w", fmt.Errorf("open d: %w", os.ErrPermission)), "open d: permission denied"},
		{fmt.Errorf("%w: values are elsewhere", brock.ErrInvalid), "values are elsewhere"},
		{errors.Join(brock.ErrNoSpace, brock.ErrNoSpace), message(brock.ErrNoSpace)},
		{errors.Join(brock.ErrClosed, errors.New("brock: b")), message(brock.ErrClosed) + "\n       b"},
		{fmt.Errorf("read: %w", context.Canceled), "interrupted"},
		{&fs.PathError{Op: "statat", Path: "a b", Err: fs.ErrPermission}, "a b: permission denied"},
		{fmt.Errorf("s: %w", &fs.PathError{Op: "open", Path: "s/SUPER", Err: fs.ErrPermission}), "s: s/SUPER: permission denied"},
		{&fs.PathError{Op: "write", Path: "f", Err: fs.ErrClosed}, "write f: file already closed"},
	} {
		if got := message(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// TestUnwrittenOutput: what could not be written is an error, of each command.
func TestUnwrittenOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	dir := t.TempDir()
	must(t, dir, "", "keyspaces", "create", "s", "ks")
	must(t, dir, "", "set", "s", "k", "v")
	must(t, dir, "", "backup", "s", "b")
	must(t, dir, "", "backup", "s", "--repository=r")
	for _, args := range []string{"get s k", "scan s", "count s", "history s k", "keyspaces s", "keyspaces options s ks", "dump s", "stats s", "tree s",
		"verify s", "verify-backup b", "backup s -", "repository r", "repository verify r", "gc s", "inspect s", "version", "--version", "help", "del s --all --dry-run", "get --help", "completion bash", "complete -- ke"} {
		cmd := process(t, dir, strings.Fields(args)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = full, &said
		_ = cmd.Run() // its error is the exit code
		if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(said.String(), "no space left on device") {
			t.Errorf("brock %s: exit code %d, %s", args, code, &said)
		}
	}
}
