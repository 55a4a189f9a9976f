package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

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

// parseError says in plain words what is wrong with a command line.
func parseError(err *kong.ParseError) error {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "unexpected argument "); ok && commandOf(err.Context) == "" {
		name, hint, _ := strings.Cut(rest, ", ")
		return wrongUsage("%s", strings.TrimSuffix(fmt.Sprintf("no command %q, %s", name, hint), ", "))
	}
	text = strings.Replace(text, `must be one of "",`, "must be one of ", 1)
	text = dashed.ReplaceAllString(text, "$1: a value that begins with - is written $1=$2")
	text = numberExpected.ReplaceAllString(text, "$1: $3 is not a whole number")
	return wrongUsage("%s", durationExpected.ReplaceAllString(text, "$1: $2 is not a time such as 1h30m"))
}

var (
	dashed           = regexp.MustCompile(`^(\S+): expected \S+ value but got "(-[^"]*)" .*$`)
	numberExpected   = regexp.MustCompile(`^(\S+): expected (a valid \d+ bit u?int|u?int value) but got ("[^"]*")$`)
	durationExpected = regexp.MustCompile(`^(\S+): expected duration but got ("[^"]*"): .*$`)
)

// commandOf returns the command that a line names, as far as it was understood.
func commandOf(line *kong.Context) (name string) {
	for _, step := range line.Path {
		if step.Command != nil {
			name = strings.TrimSpace(name + " " + step.Command.Name)
		}
	}
	return name
}

// usage adds to the error of a wrong command line where the command is explained, and calls
// options of the library by the names of the command's flags.
func usage(line *kong.Context, err error) error {
	var option *brock.OptionError
	if errors.As(err, &option) {
		if flag := flagFor(line, option.Field); flag != "" {
			err = wrongUsage("--%s %s", flag, option.Reason)
		}
	}
	var wrong usageError
	if !errors.As(err, &wrong) || strings.Contains(wrong.message, "brock help") {
		return err
	}
	return wrongUsage("%s (see brock help%s)", wrong.message, strings.TrimRight(" "+commandOf(line), " "))
}

// flagFor returns the name of the command's flag for an option of the library; "" if it has none.
func flagFor(line *kong.Context, field string) string {
	field = field[strings.LastIndexByte(field, '.')+1:]
	name := strings.ToLower(capitals.ReplaceAllString(field, "$1-$2"))
	if name == "age" {
		name = "keep-for"
	}
	for _, f := range line.Flags() {
		if f.Name == name {
			return name
		}
	}
	return ""
}

var capitals = regexp.MustCompile(`([a-z])([A-Z])`)

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

// namelessCalls are system calls whose names say nothing to a user.
var namelessCalls = []string{"open", "openat", "stat", "lstat", "statat", "lstatat", "fstatat", "readdirent", "fdopendir"}

// message returns the text of an error for users: without the names of packages, and without what
// is said twice.
func message(err error) string {
	if err == nil || errors.As(err, new(silent)) {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := err.Error()
	var file *fs.PathError
	if errors.As(err, &file) && slices.Contains(namelessCalls, file.Op) {
		text = strings.ReplaceAll(text, file.Op+" "+file.Path+": ", file.Path+": ")
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
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
