package process

import (
	"os"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/assert"
)

// CountHeld counts the descriptors and mappings that this process has of files below dir.
func CountHeld(t testing.TB, dir string) (n int) {
	t.Helper()
	for _, fd := range assert.Must(os.ReadDir("/proc/self/fd")) {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n + strings.Count(string(assert.Must(os.ReadFile("/proc/self/maps"))), dir)
}
