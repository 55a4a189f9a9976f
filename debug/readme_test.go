package debug_test

import (
	"os"
	"strings"
	"testing"
)

// The program in README.md is the one that runs as an example, and the README names each answer.
func TestReadmeIsTrue(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	program, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(string(example), program) {
		t.Errorf("README.md has a program that no example runs:\n%s", program)
	}
	for _, name := range append(names, "live", "heat", "action") {
		name, _, _ = strings.Cut(name, "?")
		if !strings.Contains(string(readme), "| `"+name+"` |") {
			t.Errorf("README.md does not say what %s answers", name)
		}
	}
}
