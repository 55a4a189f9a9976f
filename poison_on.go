//go:build brockdebug

package brock

import "github.com/brockdb/brock/internal/base/invariant"

// lentKeys are copies that were handed out, to be overwritten when they are no longer valid.
type lentKeys [][]byte

// lend returns a copy of b that poison overwrites.
func (l *lentKeys) lend(b []byte) []byte {
	b = append(make([]byte, 0, len(b)), b...)
	*l = append(*l, b)
	return b
}

// poison overwrites the copies.
func (l *lentKeys) poison() {
	for _, b := range *l {
		invariant.Poison(b)
	}
	*l = nil
}
