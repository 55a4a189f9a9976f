// Package filename names the files of a store: what kinds there are, what each
// is called, and which kind byte its checksums are bound to.
package filename

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock/internal/base/entry"
)

// Kind is a kind of file; its value is the byte that checksum.New is given.
type Kind byte

// The kinds. The values are part of the format.
const (
	Lock       Kind = 'L' // LOCK: text, has no checksums
	Super      Kind = 'S' // SUPER
	Manifest   Kind = 'M' // MANIFEST-nnnnnn
	Journal    Kind = 'J' // nnnnnn.log
	Value      Kind = 'V' // nnnnnn.val
	Run        Kind = 'R' // nnnnnn.run
	Forwarding Kind = 'P' // nnnnnn.map
	Keyring    Kind = 'K' // KEYS-nnnnnn
)

const (
	superName      = "SUPER"
	lockName       = "LOCK"
	manifestPrefix = "MANIFEST-"
	keyringPrefix  = "KEYS-"
	minDigits      = 6
	maxDigits      = 20 // digits of the greatest uint64
)

// Name identifies a file of a store. Number is 0 for Lock and Super, and at
// least 1 for all other kinds.
type Name struct {
	Kind   Kind
	Number entry.FileNum
}

// New returns the name of the file of this kind with this number.
func New(k Kind, n entry.FileNum) Name { return Name{Kind: k, Number: n} }

// Of is the base name of the file of this kind with this number; the number is
// ignored for Lock and Super.
func Of(k Kind, n entry.FileNum) string { return New(k, n).String() }

// String is the base name: what Parse reads.
func (n Name) String() string {
	switch n.Kind {
	case Lock:
		return lockName
	case Super:
		return superName
	case Manifest:
		return fmt.Sprintf("%s%0*d", manifestPrefix, minDigits, n.Number)
	case Keyring:
		return fmt.Sprintf("%s%0*d", keyringPrefix, minDigits, n.Number)
	}
	return fmt.Sprintf("%0*d%s", minDigits, n.Number, n.Kind.suffix())
}

// In is the path of the file in a store whose values are in valueDir, which may be dir.
func (n Name) In(dir, valueDir string) string {
	if n.Kind.InValueDir() {
		// Large values, and what finds them, may lie on a larger and slower disk.
		dir = valueDir
	}
	return filepath.Join(dir, n.String())
}

// String is the kind in one word, for messages.
func (k Kind) String() string {
	switch k {
	case Lock:
		return "lock"
	case Super:
		return "super"
	case Manifest:
		return "manifest"
	case Journal:
		return "journal"
	case Value:
		return "value"
	case Run:
		return "run"
	case Forwarding:
		return "forwarding"
	case Keyring:
		return "keyring"
	}
	return fmt.Sprintf("kind %#x", byte(k))
}

// InValueDir reports whether files of kind k live in the value directory, which
// by default is the store's own.
func (k Kind) InValueDir() bool { return k == Journal || k == Value || k == Forwarding }

// suffix is how the names of numbered files of this kind end.
func (k Kind) suffix() string {
	switch k {
	case Journal:
		return ".log"
	case Value:
		return ".val"
	case Run:
		return ".run"
	case Forwarding:
		return ".map"
	}
	return ".unknown"
}

// Parse reads a base name. It accepts exactly what String returns, so that no two
// names mean one file. For every other name, of a file that isn't ours, ok is false.
func Parse(base string) (name Name, ok bool) {
	switch base {
	case lockName:
		return Name{Kind: Lock}, true
	case superName:
		return Name{Kind: Super}, true
	}
	if digits, ok := strings.CutPrefix(base, manifestPrefix); ok {
		num, ok := parseNumber(digits)
		// A wrong number is not ours: somebody's MANIFEST-old is left alone.
		return Name{Kind: Manifest, Number: num}, ok
	}
	if digits, ok := strings.CutPrefix(base, keyringPrefix); ok {
		num, ok := parseNumber(digits)
		return Name{Kind: Keyring, Number: num}, ok
	}
	// All suffixes have four bytes.
	if len(base) < minDigits+4 {
		return Name{}, false
	}
	num, ok := parseNumber(base[:len(base)-4])
	if !ok {
		return Name{}, false
	}
	for _, k := range []Kind{Journal, Value, Run, Forwarding} {
		if base[len(base)-4:] == k.suffix() {
			return Name{Kind: k, Number: num}, true
		}
	}
	return Name{}, false
}

// parseNumber reads a number as String writes it: at least six digits, zeros in front only to reach
// six.
func parseNumber(s string) (entry.FileNum, bool) {
	if len(s) < minDigits || len(s) > maxDigits || (len(s) > minDigits && s[0] == '0') {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		// Bytes below '0' wrap around, and are refused, too.
		d := uint64(s[i]) - '0'
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return entry.FileNum(n), n != 0
}
