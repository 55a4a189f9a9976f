package typed

import (
	"errors"
	"fmt"
	"strings"

	"github.com/brockdb/brock"
)

// The errors of the package; test for them with errors.Is. Those of the store come as they are, or
// wrapped: brock.ErrKeyNotFound for a record that is not there, brock.ErrInvalid for misuse.
var (
	ErrExist       = errors.New("typed: there is a record of this key")                     // of Insert
	ErrDuplicate   = errors.New("typed: another record has this value of the unique index") // errors.As finds a *DuplicateError
	ErrDeclaration = errors.New("typed: the table was declared otherwise")                  // errors.As finds a *DeclarationError
	ErrDecode      = errors.New("typed: these bytes are not of this codec")                 // something else has written them
	ErrIndex       = errors.New("typed: an index does not fit its table")                   // something else has written there: Table.Verify finds and repairs it
	ErrTakenOver   = errors.New("typed: another Rebuild of the table has begun")            // of Rebuild and of no other call
)

// DuplicateError says that two records would have one value of a unique index. errors.Is reports
// ErrDuplicate.
type DuplicateError[K any] struct {
	Table, Index string
	Key          K // of the record that was to be written
	Other        K // of the record that has the value
}

// Error names table and index. It holds no key.
func (e *DuplicateError[K]) Error() string {
	return fmt.Sprintf("typed: table %q, index %q: another record has the value", e.Table, e.Index)
}

// Is reports whether target is ErrDuplicate.
func (e *DuplicateError[K]) Is(target error) bool { return target == ErrDuplicate }

// DeclarationError says how the declaration of a table differs from the one that its store has.
// errors.Is reports ErrDeclaration. Table.Rebuild makes them agree.
type DeclarationError struct {
	Table   string
	Changes []string // for people, as in `index "mail": its version was 1 and is 2`
}

// Error names the table and all that differs.
func (e *DeclarationError) Error() string {
	return fmt.Sprintf("typed: table %q was declared otherwise: %s", e.Table, strings.Join(e.Changes, "; "))
}

// Is reports whether target is ErrDeclaration.
func (e *DeclarationError) Is(target error) bool { return target == ErrDeclaration }

// misuse returns an error of the caller.
func misuse(format string, args ...any) error {
	return fmt.Errorf("typed: "+format+": %w", append(args, brock.ErrInvalid)...)
}
