// Package deadline tells campaigns of tests when to end, so that a busy machine does fewer
// cases and does not run into the time limit of go test.
package deadline

import (
	"testing"
	"time"
)

// begun is when the tests of this process began.
var begun = time.Now()

// Near reports whether four fifths of the time that go test gives the package (its -timeout)
// have passed. The test's log says so then.
func Near(t *testing.T) bool {
	end, limited := t.Deadline()
	if !limited || time.Since(begun) < end.Sub(begun)*4/5 {
		return false
	}
	t.Log("ends early: the time of go test is nearly over")
	return true
}
