//go:build brockdebug

package brock

import "github.com/brockdb/brock/internal/invariant"

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
		invariant.Poison(b)
	}
	*l = nil
}
