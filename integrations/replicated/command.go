package replicated

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/brockdb/brock"
)

// format is the first byte of all that FORMAT.md describes.
const format = 1

// Bounds of a command.
const (
	MaxCommand = 1 << 20  // bytes of a command as it is encoded
	MaxKey     = 64 << 10 // bytes of a key
)

// Command is a transaction that all nodes apply alike: if all conditions hold, its operations are
// done, in order, and become visible together. It reads nothing else, no clock and no chance.
type Command struct {
	Conditions []Condition
	Operations []Operation
}

// Condition holds if the key has this version: the index of the command that has set it last; 0: the
// key is absent.
type Condition struct {
	Key     []byte
	Version uint64
}

// OperationKind says what an Operation does.
type OperationKind uint8

// The kinds of an operation.
const (
	OpSet         OperationKind = 1 // Key gets Value, Meta and ExpiresAt
	OpDelete      OperationKind = 2 // Key is gone
	OpDeleteRange OperationKind = 3 // all keys from Key up to Upper are gone; a nil Upper is no bound
)

// Operation is one write of a Command.
type Operation struct {
	Kind      OperationKind
	Key       []byte
	Value     []byte
	Upper     []byte
	Meta      byte
	ExpiresAt time.Time // by the clock of the group, see Node.Apply; the zero time is never
}

// Set adds a set to the command, and returns the command. The slices are not copied.
func (c *Command) Set(key, value []byte) *Command {
	c.Operations = append(c.Operations, Operation{Kind: OpSet, Key: key, Value: value})
	return c
}

// Delete adds a delete to the command, and returns the command.
func (c *Command) Delete(key []byte) *Command {
	c.Operations = append(c.Operations, Operation{Kind: OpDelete, Key: key})
	return c
}

// DeleteRange adds the delete of all keys in [lo, hi) to the command, and returns the command.
func (c *Command) DeleteRange(lo, hi []byte) *Command {
	c.Operations = append(c.Operations, Operation{Kind: OpDeleteRange, Key: lo, Upper: hi})
	return c
}

// If adds a condition to the command, and returns the command.
func (c *Command) If(key []byte, version uint64) *Command {
	c.Conditions = append(c.Conditions, Condition{key, version})
	return c
}

// The kinds of an entry.
const (
	kindWrite   = 1
	kindSession = 2
)

// entry is a Command on its way through the log.
type entry struct {
	Command
	kind     byte
	session  uint64
	sequence uint64
	time     uint64 // milliseconds
}

// encode returns the entry as FORMAT.md says.
func (e *entry) encode() []byte {
	b := []byte{format, e.kind}
	for _, n := range []uint64{e.session, e.sequence, e.time, uint64(len(e.Conditions))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, c := range e.Conditions {
		b = binary.AppendUvarint(appendBytes(b, c.Key), c.Version)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Operations)))
	for i := range e.Operations {
		o := &e.Operations[i]
		b = appendBytes(append(b, byte(o.Kind)), o.Key)
		switch o.Kind {
		case OpSet:
			b = append(appendBytes(b, o.Value), o.Meta)
			expiry := uint64(0)
			if !o.ExpiresAt.IsZero() {
				expiry = uint64(max(o.ExpiresAt.UnixMilli(), 1))
			}
			b = binary.AppendUvarint(b, expiry)
		case OpDeleteRange:
			if o.Upper == nil {
				b = append(b, 0)
			} else {
				b = appendBytes(append(b, 1), o.Upper)
			}
		}
	}
	return b
}

// decodeEntry reads an entry. Its slices lie in b. It returns errFormat for a later format, and
// brock.ErrInvalid for anything else that encode does not write.
func decodeEntry(b []byte) (*entry, error) {
	d := decoder{b: b}
	d.readFormat()
	e := &entry{kind: d.readByte(), session: d.readNumber(), sequence: d.readNumber(), time: d.readNumber()}
	d.check(len(b) <= MaxCommand && e.time < 1<<56, "is too large")
	d.check(e.kind == kindWrite && e.session > 0 && e.sequence > 0 ||
		e.kind == kindSession && e.session == 0 && e.sequence == 0, "is of no known kind")
	for n := d.readCount(); n > 0 && d.err == nil; n-- {
		e.Conditions = append(e.Conditions, Condition{d.readKey(), d.readNumber()})
	}
	for n := d.readCount(); n > 0 && d.err == nil; n-- {
		o := Operation{Kind: OperationKind(d.readByte()), Key: d.readKey()}
		switch o.Kind {
		case OpSet:
			o.Value, o.Meta = d.readBytes(), d.readByte()
			if ms := d.readNumber(); ms != 0 {
				d.check(ms < 1<<56, "has an expiry too far away")
				o.ExpiresAt = time.UnixMilli(int64(ms))
			}
		case OpDelete:
		case OpDeleteRange:
			switch d.readByte() {
			case 0:
			case 1:
				o.Upper = d.readKey()
			default:
				d.check(false, "has a bound of no known kind")
			}
		default:
			d.check(false, "has an operation of no known kind")
		}
		e.Operations = append(e.Operations, o)
	}
	d.check(len(d.b) == 0, "goes on behind its end")
	d.check(e.kind == kindWrite || len(e.Conditions)+len(e.Operations) == 0, "writes and begins a session")
	if d.err != nil {
		return nil, fmt.Errorf("replicated: command: %w", d.err)
	}
	return e, nil
}

// errFormat is what a later release has written.
var errFormat = fmt.Errorf("it has a format that this release does not know: %w", brock.ErrFormat)

// decoder reads fields from b. After an error it reads zeros, and keeps the first error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) check(ok bool, reason string) {
	if !ok && d.err == nil {
		d.err = fmt.Errorf("it %s: %w", reason, brock.ErrInvalid)
	}
	if d.err != nil {
		d.b = nil
	}
}

func (d *decoder) readFormat() {
	if f := d.readByte(); d.err == nil && f != format {
		d.err, d.b = errFormat, nil
	}
}

func (d *decoder) readByte() byte {
	d.check(len(d.b) > 0, "ends too early")
	if d.err != nil {
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// readNumber reads a varint of the least possible length.
func (d *decoder) readNumber() uint64 {
	v, n := binary.Uvarint(d.b)
	d.check(n > 0 && (n == 1 || d.b[n-1] != 0), "has a number that can't be read")
	if d.err != nil {
		return 0
	}
	d.b = d.b[n:]
	return v
}

// readCount reads how many things follow, which take at least a byte each.
func (d *decoder) readCount() uint64 {
	n := d.readNumber()
	d.check(n <= uint64(len(d.b)), "ends too early")
	if d.err != nil {
		return 0
	}
	return n
}

// readBytes reads bytes; they are not nil, and can't grow into what follows.
func (d *decoder) readBytes() []byte {
	n := d.readCount()
	p := d.b[:n:n]
	if d.b = d.b[n:]; p == nil {
		p = []byte{}
	}
	return p
}

func (d *decoder) readKey() []byte {
	k := d.readBytes()
	d.check(len(k) <= MaxKey, "has a key that is too large")
	return k
}

func appendBytes(b, p []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(p))), p...) }
