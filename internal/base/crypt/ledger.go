package crypt

import (
	"crypto/sha256"
	"sync"

	"github.com/brockdb/brock/internal/base/invariant"
)

// ledger has all pairs of key and nonce that the process has encrypted under, in builds
// that check invariants.
type ledger struct {
	mu    sync.Mutex
	pairs map[[16]byte]struct{}
}

var used ledger

// noteNonce panics when a pair comes back.
func (l *ledger) noteNonce(key *[sha256.Size]byte, nonce *[12]byte) {
	h := sha256.Sum256(append(key[:len(key):len(key)], nonce[:]...))
	pair := [16]byte(h[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	_, again := l.pairs[pair]
	invariant.Check(!again, "nonce %x is used twice under a key", nonce[:])
	if l.pairs == nil {
		l.pairs = map[[16]byte]struct{}{}
	}
	l.pairs[pair] = struct{}{}
}
