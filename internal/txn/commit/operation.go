package commit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// Op is an operation on the value of a key, which the commit computes.
type Op uint8

// The operations.
const (
	OpAdd     Op = 1 // signed 64-bit sum, which wraps
	OpMin     Op = 2 // the lesser one of two signed 64-bit numbers
	OpMax     Op = 3 // the greater one
	OpOr      Op = 4 // of each bit
	OpAnd     Op = 5 // of each bit
	OpAppend  Op = 6 // the operand behind the value
	OpClearIf Op = 7 // deletes the key if its value equals the operand
)

// String returns the name of the operation without "Op", as in "Add".
func (o Op) String() string {
	names := [...]string{OpAdd: "Add", OpMin: "Min", OpMax: "Max", OpOr: "Or", OpAnd: "And", OpAppend: "Append", OpClearIf: "ClearIf"}
	if o < OpAdd || int(o) >= len(names) {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return names[o]
}

// ErrOperations is the error of operations in writes that are spilled.
var ErrOperations = fmt.Errorf("brock: operations in a transaction larger than its memory: %w", errs.ErrUnsupported)

// MaxOperand is how long an operand, and the result of an operation, may be, in bytes.
const MaxOperand = 64 << 10

// CheckOperand returns an errs.ErrInvalid for an unknown operation, and for an operand that it can't
// have.
func (o Op) CheckOperand(operand []byte) error {
	if o < OpAdd || o > OpClearIf || len(operand) > MaxOperand || o <= OpMax && len(operand) != 8 {
		return fmt.Errorf("brock: operation %v can't have an operand of %d bytes: %w", o, len(operand), errs.ErrInvalid)
	}
	return nil
}

// Compute returns what the operation makes of a value, and whether there is one then. Without found
// there was none. The result lies in dst, if that has room; dst and value may begin at the same
// place. It returns an errs.ErrInvalid, and has changed nothing, if the value's length doesn't fit.
func (o Op) Compute(dst, value []byte, found bool, operand []byte) ([]byte, bool, error) {
	// 0+n, 0|n; by definition the same for the others. But there is nothing to clear.
	if !found {
		return append(dst[:0], operand...), o != OpClearIf, nil
	}
	fits := len(value) == len(operand)
	if o == OpAppend {
		fits = len(value)+len(operand) <= MaxOperand
	}
	if !fits && o != OpClearIf {
		return dst, found, fmt.Errorf("brock: the value's length does not fit the operation %v of %d bytes: %w", o, len(operand), errs.ErrInvalid)
	}
	dst = append(dst[:0], value...)
	switch o {
	case OpClearIf:
		return dst, !bytes.Equal(dst, operand), nil
	case OpAppend:
		return append(dst, operand...), true, nil
	case OpOr, OpAnd:
		for i, b := range operand {
			if o == OpOr {
				dst[i] |= b
			} else {
				dst[i] &= b
			}
		}
		return dst, true, nil
	}
	n, m := int64(binary.LittleEndian.Uint64(dst)), int64(binary.LittleEndian.Uint64(operand))
	switch o {
	case OpAdd:
		n += m
	case OpMin:
		n = min(n, m)
	case OpMax:
		n = max(n, m)
	}
	binary.LittleEndian.PutUint64(dst, uint64(n))
	return dst, true, nil
}

// Step is one operation with its operand.
type Step struct {
	Op      Op
	Operand []byte
}

// Encoder makes the records of a keyspace.
type Encoder interface {
	// EncodeEntry appends the record of e, which has its stored key, and returns where it begins.
	EncodeEntry(dst []byte, e *entry.Entry) (encoded []byte, at int)
	// DecodeValue returns the value of e, which is compressed.
	DecodeValue(e *entry.Entry) ([]byte, error)
}

// Operations are resolved into plain records. Their committer reads the bases and encodes the
// results, before it joins a group. The leader then only asks whether a key has a newer entry. If
// so, it computes again from that, which costs no read: the entry lies in the group or in a memtable.
// If the leader can't have the value without a read, the committer must begin again. That can't go
// on for ever: the last try has an exclusive turn, in which nothing newer can come.

// operationTries is how often bases are read before the exclusive turn.
const operationTries = 4

var errOutdated = errors.New("an operation's key has a newer value, which the leader does not read")

// Suffix is how many bytes a versioned key has behind its prefix: the version, and a number of 4
// bytes that tells the keys of one transaction apart.
const Suffix = 12

// Operation is what a transaction does to one key that it does not know the value of; or, with
// Versioned, a set of a key that ends in the transaction's version.
type Operation struct {
	Key       []byte // stored; its last Suffix bytes are for the version, if Versioned
	Hash      uint64 // of Key
	Steps     []Step // in order; the value, if Versioned
	TTL       uint64 // of a value where there was none, in milliseconds; 0: it doesn't expire
	Encoder   Encoder
	Versioned bool

	Result []byte      // the value that the key got; set by Apply
	base   entry.Entry // what the key had; its value is in memory of the operation
	at     int         // where the version belongs in the payload, if Versioned
}

// AddStep adds a step, whose operand is copied. Steps of one kind become one, so that a counter of many
// steps takes no memory. It returns how many bytes it took, or Compute's error.
func (o *Operation) AddStep(s Step) (int, error) {
	if n := len(o.Steps) - 1; n >= 0 && o.Steps[n].Op == s.Op && s.Op != OpClearIf {
		last := &o.Steps[n]
		before := len(last.Operand)
		joined, _, err := s.Op.Compute(last.Operand, last.Operand, true, s.Operand)
		if err != nil {
			return 0, err
		}
		last.Operand = joined
		return len(joined) - before, nil
	}
	o.Steps = append(o.Steps, Step{s.Op, bytes.Clone(s.Operand)})
	return len(s.Operand) + 32, nil
}

// Apply returns the entry that the steps make of base, a delete if there is no value, and whether there
// is anything to write; if not, the entry's value is that of base. base is missing if it is a delete or expired at now. Expiry, meta and kind of a
// base stay. The value lies in Result. It returns the errors of Compute.
func (o *Operation) Apply(base *entry.Entry, now uint64) (e entry.Entry, changed bool, err error) {
	fresh := entry.Entry{Key: o.Key, Kind: entry.Set}
	if o.TTL > 0 {
		fresh.Expires = now + o.TTL
	}
	if o.Versioned {
		fresh.Value = o.Steps[0].Operand
		return fresh, true, nil
	}
	before := base.Live(now)
	found := before
	e = entry.Entry{Key: o.Key, Kind: base.Kind, Meta: base.Meta, Expires: base.Expires}
	o.Result = o.Result[:0]
	if found {
		// A longer value fits no operation: its length is all that counts.
		o.Result = append(o.Result, base.Value[:min(len(base.Value), MaxOperand+1)]...)
	}
	for _, s := range o.Steps {
		// Also behind a step that has cleared the key: what comes then is a new value.
		if !found {
			e = fresh
		}
		if o.Result, found, err = s.Op.Compute(o.Result, o.Result, found, s.Operand); err != nil {
			return e, false, err
		}
		changed = changed || s.Op != OpClearIf
	}
	if !found {
		return entry.Entry{Key: o.Key, Kind: entry.Delete}, before, nil
	}
	if e.Value = o.Result; !changed {
		e.Value = base.Value
	}
	return e, changed, nil
}
