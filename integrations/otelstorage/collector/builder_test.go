package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The collector's builder makes a program of builder-config.yaml, which has the extension and
// accepts config.yaml.
func TestBuilder(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads and compiles the builder")
	}
	t.Parallel()
	dir := t.TempDir()
	text, err := os.ReadFile("builder-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	// Paths of replaces are relative to the program, which is elsewhere here.
	config := strings.NewReplacer("./built", dir, "../../../..", filepath.Join(here, "..", "..", ".."),
		"../..", filepath.Join(here, "..")).Replace(string(text))
	file := filepath.Join(dir, "builder-config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "go", "run", "go.opentelemetry.io/collector/cmd/builder@v0.159.0", "--config", file, "--skip-compilation")
	// Compiled here as the builder would, but with what other tests have compiled already.
	run(t, dir, "go", "build", "-o", "program", ".")
	program := filepath.Join(dir, "program")
	if out := run(t, dir, program, "components"); !strings.Contains(out, "brock_storage") {
		t.Errorf("the program has these components:\n%s", out)
	}
	run(t, dir, program, "validate", "--config", filepath.Join(here, "config.yaml"))
}

// run runs a program in a directory and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "STORAGE="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
