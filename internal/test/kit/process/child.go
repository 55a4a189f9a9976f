// Package process is about the process that a test runs in: its children, processor time,
// mappings and garbage.
package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// RunInChild reports true in a child process, which may die, and runs there what follows.
// In the parent it runs the child, whose failure fails the test. What the child printed
// last tells what it was doing.
func RunInChild(t *testing.T) bool {
	const key = "BROCK_TEST_CHILD"
	if os.Getenv(key) != "" {
		return true
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", fmt.Sprintf("-test.short=%v", testing.Short()))
	c.Env = append(os.Environ(), key+"=1")
	out, err := c.CombinedOutput()
	if err == nil {
		return false
	}
	cut := len(out)
	if i := bytes.Index(out, []byte("fatal error")); i >= 0 {
		cut = min(cut, i+2000)
	} else if i := bytes.Index(out, []byte("unexpected fault")); i >= 0 {
		cut = min(cut, i+2000)
	}
	t.Fatalf("%v:\n%s", err, out[max(0, cut-4000):cut])
	return false
}
