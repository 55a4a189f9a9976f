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

// lentKeys are the copies of its key that an iterator's item handed out.
type lentKeys [][]byte

// lend is b as a copy that is overwritten by the next move.
func (l *lentKeys) lend(b []byte) []byte {
	b = append(make([]byte, 0, len(b)), b...)
	*l = append(*l, b)
	return b
}

// poison overwrites the copies.
func (l *lentKeys) poison() {
	for _, b := range *l {
		poison(b)
	}
	*l = nil
}
