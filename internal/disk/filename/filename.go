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

// form is how files of a kind are called.
type form struct {
	kind           Kind
	word           string // the kind in messages
	prefix, suffix string // around the number
	single         bool   // there is one such file, without a number
}

// forms has the names of all kinds. No file has the names of two of them.
var forms = [...]form{
	{kind: Lock, word: "lock", prefix: "LOCK", single: true},
	{kind: Super, word: "super", prefix: "SUPER", single: true},
	{kind: Manifest, word: "manifest", prefix: "MANIFEST-"},
	{kind: Journal, word: "journal", suffix: ".log"},
	{kind: Value, word: "value", suffix: ".val"},
	{kind: Run, word: "run", suffix: ".run"},
	{kind: Forwarding, word: "forwarding", suffix: ".map"},
	{kind: Keyring, word: "keyring", prefix: "KEYS-"},
}

// form returns how files of the kind are called, also if the kind is not known.
func (k Kind) form() form {
	for _, f := range forms {
		if f.kind == k {
			return f
		}
	}
	return form{kind: k, word: fmt.Sprintf("kind %#x", byte(k)), suffix: ".unknown"}
}

const (
	minDigits = 6
	maxDigits = 20 // digits of the greatest uint64
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
	f := n.Kind.form()
	if f.single {
		return f.prefix
	}
	return fmt.Sprintf("%s%0*d%s", f.prefix, minDigits, n.Number, f.suffix)
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
func (k Kind) String() string { return k.form().word }

// InValueDir reports whether files of kind k live in the value directory, which
// by default is the store's own.
func (k Kind) InValueDir() bool { return k == Journal || k == Value || k == Forwarding }

// Parse reads a base name. It accepts exactly what String returns, so that no two
// names mean one file. For every other name, of a file that isn't ours, ok is false.
func Parse(base string) (name Name, ok bool) {
	for _, f := range forms {
		digits, begins := strings.CutPrefix(base, f.prefix)
		digits, ends := strings.CutSuffix(digits, f.suffix)
		// A wrong number is not ours: somebody's MANIFEST-old is left alone.
		num, numbered := parseNumber(digits)
		if begins && ends && numbered != f.single && (numbered || digits == "") {
			return Name{Kind: f.kind, Number: num}, true
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
