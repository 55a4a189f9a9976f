package badger

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each difference in the README names tests that there are, and its program is that of Example.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	check(t, err)
	files, err := filepath.Glob("*_test.go")
	check(t, err)
	more, err := filepath.Glob("internal/differential/*_test.go")
	check(t, err)
	var tests bytes.Buffer
	for _, name := range append(files, more...) {
		source, err := os.ReadFile(name)
		check(t, err)
		tests.Write(source)
	}
	rows := 0
	for line := range strings.Lines(string(readme)) {
		if !strings.HasPrefix(line, "| ") || strings.Count(line, " | ") != 3 || !strings.Contains(line, "`Test") {
			continue
		}
		rows++
		for _, name := range regexp.MustCompile("Test[A-Za-z]+").FindAllString(line, -1) {
			if !bytes.Contains(tests.Bytes(), []byte("func "+name+"(t *testing.T)")) {
				t.Errorf("there is no %s", name)
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d rows with tests", rows)
	}
	_, program, _ := strings.Cut(string(readme), "	db, err := badger.Open(badger.DefaultOptions(dir))\n")
	program, _, _ = strings.Cut(program, "}\n```")
	example, err := os.ReadFile("example_test.go")
	check(t, err)
	if len(program) < 100 || !bytes.Contains(example, []byte(program)) {
		t.Error("no example runs the program of the README")
	}
}
