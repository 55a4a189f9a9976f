package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/script"
)

// TestScripts runs the command lines in testdata, each script in a directory of
// its own. "file NAME" writes its input to a file, "ls" shows what is in the directory.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			dir := t.TempDir()
			script.Run(t, file, func(t *testing.T, c *script.Case) string { return runCase(t, dir, c) })
		})
	}
}

func list(t *testing.T, dir string) (s string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		s += e.Name() + "\n"
	}
	return s
}

// dataKey is one in a message: its id is random.
var dataKey = regexp.MustCompile("data key [0-9a-f]{32}")

func runCase(t *testing.T, dir string, c *script.Case) string {
	var args []string
	for _, a := range c.Args {
		if len(a.Values) > 0 {
			a.Key += "=" + a.Values[0]
		}
		args = append(args, a.Key)
	}
	switch c.Cmd {
	case "file":
		writeFile(t, dir, args[0], c.Input)
		return ""
	case "ls":
		return list(t, dir)
	}
	r := brockIn(t, dir, c.Input, append([]string{c.Cmd}, args...)...)
	r.err = dataKey.ReplaceAllString(r.err, "data key ID")
	s := r.out
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += " (no newline)\n"
	}
	for line := range strings.Lines(r.err) {
		s += "! " + line
	}
	if r.code != exitOK {
		s += fmt.Sprintf("exit code %d\n", r.code)
	}
	return s
}
