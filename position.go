package brock

import (
	"encoding"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
)

// Position is a place between two commits of one store. Two Positions are the same place if they are
// equal (==). A consumer that stores it together with what it has made of the commits, in one
// transaction of its own, handles each commit exactly once, whatever crashes.
//
// A Position belongs to one history. A copy of the store (a restored backup, a checkpoint, a salvage)
// that goes on by itself gives the same versions to other commits, so Watch refuses a Position of
// another past with ErrVersionGone.
type Position struct {
	version uint64
	session uint64 // id of the opening of the store that has committed it
}

var (
	_ encoding.TextMarshaler   = Position{}
	_ encoding.TextUnmarshaler = (*Position)(nil)
)

// Version is the version of the last commit before the place.
func (p Position) Version() uint64 { return p.version }

// String is the Position as text, for ParsePosition: the version, "-", 16 hex digits.
func (p Position) String() string { return fmt.Sprintf("%d-%016x", p.version, p.session) }

// MarshalText returns String.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p to what String has returned. It returns ErrInvalid for any other text.
func (p *Position) UnmarshalText(text []byte) error {
	var q Position
	_, err := fmt.Sscanf(string(text), "%d-%x", &q.version, &q.session)
	if err != nil || q.String() != string(text) {
		return fmt.Errorf("brock: %.100q is no position: %w", text, ErrInvalid)
	}
	*p = q
	return nil
}

// ParsePosition returns the Position that String has printed, or ErrInvalid.
func ParsePosition(text string) (p Position, err error) {
	err = p.UnmarshalText([]byte(text))
	return p, err
}

// Position is the place behind what the transaction reads, also after its end: a Watch with it in
// After yields what was committed since, while the history reaches back so far. So a program can make
// something of the store's state, and then follow it.
func (t *Txn) Position() Position {
	if t.transaction == nil {
		return Position{}
	}
	return positionAt(t.db, t.at)
}

// positionAt is the place behind version v.
func positionAt(db *DB, v entry.Version) Position {
	// A session is recorded before its first commit is visible.
	s, ok := db.engine.Sessions().Of(v)
	if !ok {
		// All copies have it in common. The zero Position would mean now.
		s.ID = db.seed | 1
	}
	return Position{version: uint64(v), session: s.ID}
}
