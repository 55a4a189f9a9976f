//go:build brockdebug

package invariant

// Poisons says that buffers are overwritten at the end of their life.
const Poisons = true

// Poison overwrites b, up to its capacity, with bytes that no one expects.
func Poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xdb
	}
}
