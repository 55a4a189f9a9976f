package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

// The exit codes. They stand in the help text and in docs/guide.md, too.
const (
	exitOK          = 0
	exitFailed      = 1 // also: no store in the directory
	exitUsage       = 2
	exitNotFound    = 3 // a key or keyspace, not a store
	exitCorrupt     = 4
	exitInUse       = 5
	exitInput       = 6 // what was read is refused: not a pair, a key that is too large, nothing at all
	exitInterrupted = 130
)

const exitCodes = `Exit codes: 0 done, 1 failed, 2 wrong usage, 3 key or keyspace not found, 4 damaged data, 5 store in use, 6 input refused, 130 interrupted.`

// usageError is the error of a command line that makes no sense.
type usageError struct{ message string }

// Error says what is wrong with it.
func (e usageError) Error() string { return e.message }

func wrongUsage(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...)}
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, brock.ErrCorrupt):
		return exitCorrupt
	case errors.Is(err, brock.ErrLocked):
		return exitInUse
	case errors.Is(err, brock.ErrKeyNotFound), errors.Is(err, brock.ErrKeyspaceNotFound):
		return exitNotFound
	case errors.Is(err, pairs.ErrInput):
		return exitInput
	case errors.As(err, &usage), errors.Is(err, brock.ErrInvalid): // of a flag or an argument
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// message returns the text of an error for users: without the names of packages, and without what
// is said twice.
func message(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		for _, name := range []string{"repository: ", "brock: "} {
			line = strings.ReplaceAll(strings.TrimPrefix(line, name), ": "+name, ": ")
		}
		line = strings.Replace(": "+line, ": invalid argument: ", ": ", 1)[2:] // the exit code says it
		// A step may have said the same as its call: make "open d: x" of "open d: open d: x".
		for n := strings.Index(line, ": "); n > 0 && strings.HasPrefix(line[n+2:], line[:n+2]); {
			line = line[n+2:]
		}
		line = strings.TrimSuffix(line, ": invalid argument")
		if !slices.Contains(lines, line) { // Close may return the error of a write again
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n       ")
}

// silent is an error whose text was printed already; only its exit code counts.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
