package conflict

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/errs"
)

// Refusal is the error of a transaction that can't be committed: others have changed, or are about
// to change, what it has read or what it writes. That is a key, a range or a whole keyspace. It is
// an errs.ErrConflict. Its bytes are copies.
type Refusal struct {
	Lo, Hi  []byte    // stored keys: Lo or, with Range, [Lo, Hi); a nil Hi is no bound
	Range   bool      // something in the range has changed; nobody has looked which key
	Dropped *Keyspace // if set, the cause is that this keyspace was dropped; the rest is unset
	Yields  bool      // nothing has changed, but another transaction has its turn there
}

// RefuseKey returns the refusal because of a key, which is copied.
func RefuseKey(key []byte) *Refusal { return &Refusal{Lo: bytes.Clone(key)} }

// RefuseRange returns the refusal because of a range, whose bounds are copied.
func RefuseRange(lo, hi []byte) *Refusal {
	return &Refusal{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Range: true}
}

// Error says that it is a conflict, but holds no key.
func (r *Refusal) Error() string { return errs.ErrConflict.Error() }

// Is reports whether target is errs.ErrConflict.
func (r *Refusal) Is(target error) bool { return target == errs.ErrConflict }
