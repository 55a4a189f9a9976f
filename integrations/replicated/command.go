package replicated

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock"
)

// format is the first byte of all that FORMAT.md describes.
const format = 1

// commandFormat is the format of a command with named keyspaces or conditions on ranges. Others are
// written as format 1, so that nodes of the first release take them.
const commandFormat = 2

// Bounds of a command.
const (
	MaxCommand   = 1 << 20  // bytes of a command as it is encoded
	MaxKey       = 64 << 10 // bytes of a key
	MaxRange     = 64 << 10 // keys in the range of a condition
	MaxKeyspaces = 256      // named keyspaces of a group
)

// Command is a transaction that all nodes apply alike: if all conditions hold, its operations are
// done, in order, and become visible together. It reads nothing else, no clock and no chance.
type Command struct {
	Conditions []Condition
	Operations []Operation
}

// Condition holds if the key has this version: the index of the command that has set it last; 0: the
// key is absent. With Range it holds if [Key, Upper) has Count keys, and none of a later version: so
// if it had Count keys at Version, nothing in it has changed. A nil Upper is no bound.
type Condition struct {
	Keyspace   string // "" = the default one
	Key, Upper []byte
	Version    uint64
	Count      int // at most MaxRange
	Range      bool
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
	Keyspace  string // "" = the default one; Apply makes one that is not there
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
	c.Conditions = append(c.Conditions, Condition{Key: key, Version: version})
	return c
}

// IfRange adds a condition on the range [lo, hi) of the default keyspace to the command, and returns the
// command.
func (c *Command) IfRange(lo, hi []byte, version uint64, count int) *Command {
	c.Conditions = append(c.Conditions, Condition{Key: lo, Upper: hi, Version: version, Count: count, Range: true})
	return c
}

// The kinds of an entry.
const (
	kindWrite    = 1
	kindSession  = 2
	kindKeyspace = 3
)

// entry is a Command on its way through the log.
type entry struct {
	Command
	kind     byte
	session  uint64
	sequence uint64
	time     uint64 // milliseconds
	name     string // of the keyspace to make
}

// names returns the named keyspaces of a command, each once, in the order in which it names them, and
// whether it has a condition on a range.
func (c *Command) names() (names []string, ranges bool) {
	for i := range c.Conditions {
		names, ranges = addName(names, c.Conditions[i].Keyspace), ranges || c.Conditions[i].Range
	}
	for i := range c.Operations {
		names = addName(names, c.Operations[i].Keyspace)
	}
	return names, ranges
}

func addName(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// encode returns the entry as FORMAT.md says.
func (e *entry) encode() []byte {
	names, ranges := e.names()
	b := []byte{format, e.kind}
	later := e.kind == kindKeyspace || len(names) > 0 || ranges
	if later {
		b[0] = commandFormat
	}
	for _, n := range []uint64{e.session, e.sequence, e.time} {
		b = binary.AppendUvarint(b, n)
	}
	if e.kind == kindKeyspace {
		return appendBytes(b, []byte(e.name))
	}
	appendKeyspace := func(b []byte, name string) []byte {
		if !later {
			return b
		}
		return binary.AppendUvarint(b, uint64(slices.Index(names, name)+1)) // 0 = the default one
	}
	if later {
		b = binary.AppendUvarint(b, uint64(len(names)))
		for _, name := range names {
			b = appendBytes(b, []byte(name))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(e.Conditions)))
	for i := range e.Conditions {
		c := &e.Conditions[i]
		b = appendKeyspace(b, c.Keyspace)
		b = binary.AppendUvarint(appendBytes(b, c.Key), c.Version)
		switch {
		case later && c.Range:
			b = appendUpper(binary.AppendUvarint(append(b, 1), uint64(c.Count)), c.Upper)
		case later:
			b = append(b, 0)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(e.Operations)))
	for i := range e.Operations {
		o := &e.Operations[i]
		b = appendBytes(appendKeyspace(append(b, byte(o.Kind)), o.Keyspace), o.Key)
		switch o.Kind {
		case OpSet:
			b = append(appendBytes(b, o.Value), o.Meta)
			expiry := uint64(0)
			if !o.ExpiresAt.IsZero() {
				expiry = uint64(max(o.ExpiresAt.UnixMilli(), 1))
			}
			b = binary.AppendUvarint(b, expiry)
		case OpDeleteRange:
			b = appendUpper(b, o.Upper)
		}
	}
	return b
}

// appendUpper appends the upper bound of a range; nil is none.
func appendUpper(b, upper []byte) []byte {
	if upper == nil {
		return append(b, 0)
	}
	return appendBytes(append(b, 1), upper)
}

// decodeEntry reads an entry. Its slices lie in b. It returns errFormat for a later format, and
// brock.ErrInvalid for anything else that encode does not write.
func decodeEntry(b []byte) (*entry, error) {
	d := decoder{b: b}
	later := len(b) > 0 && b[0] == commandFormat
	if later {
		d.b = b[1:]
	} else {
		d.readFormat()
	}
	e := &entry{kind: d.readByte(), session: d.readNumber(), sequence: d.readNumber(), time: d.readNumber()}
	d.check(len(b) <= MaxCommand && e.time < 1<<56, "is too large")
	d.check(e.kind == kindWrite && e.session > 0 && e.sequence > 0 ||
		e.kind == kindSession && e.session == 0 && e.sequence == 0 && !later ||
		e.kind == kindKeyspace && e.session == 0 && e.sequence == 0 && e.time == 0 && later, "is of no known kind")
	if e.kind == kindKeyspace {
		e.name = d.readName()
	} else {
		d.readCommand(&e.Command, later)
	}
	d.check(len(d.b) == 0, "goes on behind its end")
	d.check(e.kind == kindWrite || len(e.Conditions)+len(e.Operations) == 0, "writes and begins a session")
	if d.err != nil {
		return nil, fmt.Errorf("replicated: command: %w", d.err)
	}
	return e, nil
}

// readName reads the name of a keyspace.
func (d *decoder) readName() string {
	name := string(d.readBytes())
	d.check(name != "" && len(name) <= brock.MaxKeyspaceName && name != ownKeyspace, "has a keyspace that can't be")
	return name
}

// readCommand reads conditions and operations.
func (d *decoder) readCommand(c *Command, later bool) {
	names := []string{""}
	if later {
		n := d.readCount()
		d.check(n <= MaxKeyspaces, "names too many keyspaces")
		for ; n > 0 && d.err == nil; n-- {
			names = append(names, d.readName())
		}
	}
	readKeyspace := func() string {
		if !later {
			return ""
		}
		n := d.readNumber()
		if d.check(n < uint64(len(names)), "has a keyspace without a name"); d.err != nil {
			return ""
		}
		return names[n]
	}
	for n := d.readCount(); n > 0 && d.err == nil; n-- {
		x := Condition{Keyspace: readKeyspace(), Key: d.readKey(), Version: d.readNumber()}
		if x.Range = later && d.readFlag(); x.Range {
			count := d.readNumber()
			d.check(count <= MaxRange, "has a condition on too many keys")
			x.Count, x.Upper = int(count), d.readUpper()
		}
		c.Conditions = append(c.Conditions, x)
	}
	for n := d.readCount(); n > 0 && d.err == nil; n-- {
		o := Operation{Kind: OperationKind(d.readByte()), Keyspace: readKeyspace(), Key: d.readKey()}
		switch o.Kind {
		case OpSet:
			o.Value, o.Meta = d.readBytes(), d.readByte()
			if ms := d.readNumber(); ms != 0 {
				d.check(ms < 1<<56, "has an expiry too far away")
				o.ExpiresAt = time.UnixMilli(int64(ms))
			}
		case OpDelete:
		case OpDeleteRange:
			o.Upper = d.readUpper()
		default:
			d.check(false, "has an operation of no known kind")
		}
		c.Operations = append(c.Operations, o)
	}
	// Each command has one form.
	used, ranges := c.names()
	d.check(slices.Equal(used, names[1:]) && later == (len(used) > 0 || ranges), "names other keyspaces than it uses")
}

// readFlag reads a byte that is 0 or 1.
func (d *decoder) readFlag() bool {
	flag := d.readByte()
	d.check(flag <= 1, "has a flag of no known kind")
	return flag == 1
}

// readUpper reads the upper bound of a range; nil is none.
func (d *decoder) readUpper() []byte {
	if !d.readFlag() {
		return nil
	}
	return d.readKey()
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
