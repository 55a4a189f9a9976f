package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModulesStandAlone: each module builds without go.work, which users of a release don't
// have: its go.mod and go.sum name all that the core needs, too.
func TestModulesStandAlone(t *testing.T) {
	for _, use := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		cmd := exec.Command("go", "list", "-deps", "./...")
		cmd.Dir = filepath.Join(root, use[1])
		cmd.Env = append(os.Environ(), "GOWORK=off")
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v: %s(go mod tidy with GOWORK=off repairs it)", use[1], err, &said)
		}
	}
}
