// Package invariant checks what only our own mistake can break. The checks are
// compiled in by the build tags invariants and race, and cost nothing otherwise.
package invariant

import "fmt"

// Check panics with the formatted message if Enabled and cond is false. The
// arguments are evaluated in every build; guard costly ones by if Enabled.
func Check(cond bool, format string, args ...any) {
	if Enabled && !cond {
		// Not an error: going on could write the mistake to the disk.
		panic("brock: broken invariant: " + fmt.Sprintf(format, args...))
	}
}
