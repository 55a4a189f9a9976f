//go:build brockdebug

package brock

// debug says that buffers are poisoned at the end of their life: every slice
// that is handed out is a copy, overwritten as soon as it is no longer valid.
const debug = true

// poison overwrites b, up to its capacity, with bytes that no one expects.
func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xdb
	}
}
