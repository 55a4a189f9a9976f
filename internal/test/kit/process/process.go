package process

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/deadline"
)

// LogWhenFailed logs which of many cases it was, if the test has failed.
func LogWhenFailed(t *testing.T, what string, at *int) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s %d", what, *at)
		}
	})
}

// CollectGarbage runs the garbage collector until its cleanups have made ok true.
func CollectGarbage(t *testing.T, ok func() bool) {
	t.Helper()
	deadline.Wait(t, "the collector has found what is leaked", func() bool {
		runtime.GC()
		return ok()
	})
}

// RequireMappings skips a test of what is mapped where nothing is.
func RequireMappings(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("32-bit programs map no files")
	}
}
