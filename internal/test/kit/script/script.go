// Package script runs data-driven tests: text files of commands and their results.
// A reviewer sees in the diff how behaviour changes.
//
// A case is a command line (a word, then key or key=value or key=(a, b)
// arguments), optional input lines, a line "----", and the result up to the next
// blank line. A result that has blank lines itself stands between "----" lines,
// two above and two below. Lines before a case that begin with # are comments.
// go test -rewrite writes the results that the test has now.
package script

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the results of script tests into their files")

// Case is one command of a script.
type Case struct {
	Pos   string // file:line
	Cmd   string
	Args  []Arg
	Input string // lines between the command and "----", each with its newline
}

// Arg is one argument of a command; Values is empty for a bare key.
type Arg struct {
	Key    string
	Values []string
}

// Has reports whether the argument is there.
func (c *Case) Has(key string) bool {
	_, ok := c.arg(key)
	return ok
}

func (c *Case) arg(key string) (Arg, bool) {
	for _, a := range c.Args {
		if a.Key == key {
			return a, true
		}
	}
	return Arg{}, false
}

// String is the argument's first value, or missing.
func (c *Case) String(key, missing string) string {
	if a, ok := c.arg(key); ok && len(a.Values) > 0 {
		return a.Values[0]
	}
	return missing
}

// Int is the argument's first value as a number, or missing.
func (c *Case) Int(t testing.TB, key string, missing int) int {
	t.Helper()
	a, ok := c.arg(key)
	if !ok || len(a.Values) == 0 {
		return missing
	}
	n, err := strconv.Atoi(a.Values[0])
	if err != nil {
		t.Fatalf("%s: %s: %v", c.Pos, key, err)
	}
	return n
}

// Run runs the script at path: do gives each command's result.
func Run(t *testing.T, path string, do func(t *testing.T, c *Case) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(path, string(text), func(c *Case, want string) string {
		got := do(t, c)
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if got != want && !*rewrite {
			t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", c.Pos, c.Cmd, got, want)
		}
		return got
	})
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite && out != string(text) {
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const rule = "----"

// run walks the cases and returns the script with the results that do gave.
func run(path, text string, do func(c *Case, want string) string) (string, error) {
	var out strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		line := strings.TrimSpace(lines[i])
		out.WriteString(lines[i])
		i++
		if line == "" || line[0] == '#' {
			continue
		}
		c := &Case{Pos: fmt.Sprintf("%s:%d", path, i)}
		if err := c.parse(line); err != nil {
			return "", err
		}
		for ; i < len(lines) && strings.TrimSpace(lines[i]) != rule; i++ {
			c.Input += lines[i]
			out.WriteString(lines[i])
		}
		if i == len(lines) {
			return "", fmt.Errorf("%s: no %s after the command", c.Pos, rule)
		}
		i++
		var want string
		want, i = expected(lines, i)
		got := do(c, want)
		out.WriteString(rule + "\n")
		if strings.Contains("\n"+got, "\n\n") {
			out.WriteString(rule + "\n" + got + rule + "\n" + rule + "\n")
		} else {
			out.WriteString(got)
		}
	}
	return out.String(), nil
}

// expected reads the result that begins at line i, and says which line follows.
func expected(lines []string, i int) (want string, next int) {
	if i < len(lines) && strings.TrimSpace(lines[i]) == rule {
		for i++; i < len(lines); i++ {
			if strings.TrimSpace(lines[i]) == rule && i+1 < len(lines) && strings.TrimSpace(lines[i+1]) == rule {
				return want, i + 2
			}
			want += lines[i]
		}
		return want, i
	}
	for ; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
		want += lines[i]
	}
	return want, i
}

// parse reads the command line.
func (c *Case) parse(line string) error {
	c.Cmd, line, _ = strings.Cut(line, " ")
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, " =")
		if end < 0 {
			end = len(line)
		}
		a := Arg{Key: line[:end]}
		line = line[end:]
		if strings.HasPrefix(line, "=") {
			value := line[1:]
			if strings.HasPrefix(value, "(") {
				inner, rest, ok := strings.Cut(value[1:], ")")
				if !ok {
					return fmt.Errorf("%s: no ) after %s=(", c.Pos, a.Key)
				}
				for _, v := range strings.Split(inner, ",") {
					a.Values = append(a.Values, strings.TrimSpace(v))
				}
				line = rest
			} else {
				var v string
				v, line, _ = strings.Cut(value, " ")
				a.Values = []string{v}
			}
		}
		c.Args = append(c.Args, a)
	}
	return nil
}
