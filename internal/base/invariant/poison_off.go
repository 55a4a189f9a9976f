//go:build !brockdebug

package invariant

// Poisons says that buffers are overwritten at the end of their life: by the
// build tag brockdebug.
const Poisons = false

// Poison does nothing in this build.
func Poison([]byte) {}
