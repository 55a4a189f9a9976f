package replicated

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"
)

// applied says how far the log is in a state. It is in the commit of each batch of commands.
type applied struct {
	index uint64
	term  uint64
	clock uint64 // the greatest time of all commands, in milliseconds
}

func (a applied) encode() []byte {
	b := binary.AppendUvarint([]byte{format}, a.index)
	return binary.AppendUvarint(binary.AppendUvarint(b, a.term), a.clock)
}

func decodeApplied(b []byte) (applied, error) {
	d := decoder{b: b}
	d.readFormat()
	a := applied{d.readNumber(), d.readNumber(), d.readNumber()}
	d.check(len(d.b) == 0, "goes on behind its end")
	return a, d.wrap("applied")
}

// header is a snapshot as raft keeps and sends it: where the data is.
type header struct {
	name    string // of the checkpoint
	node    string // that has it
	address string // of that node
	applied applied
}

// headerSize is the length of a header. Raft's transport gives an InstallSnapshot, in which a
// follower fetches the data, Options.RPCTimeout for each byte.
const headerSize = 1024

func (h *header) encode() []byte {
	b := appendBytes([]byte{format}, []byte(h.name))
	b = appendBytes(appendBytes(b, []byte(h.node)), []byte(h.address))
	b = binary.AppendUvarint(binary.AppendUvarint(b, h.applied.index), h.applied.term)
	b = binary.AppendUvarint(b, h.applied.clock)
	return append(b, make([]byte, max(headerSize-len(b), 0))...)
}

func decodeHeader(b []byte) (*header, error) {
	d := decoder{b: b}
	d.readFormat()
	h := &header{name: string(d.readKey()), node: string(d.readKey()), address: string(d.readKey())}
	h.applied = applied{d.readNumber(), d.readNumber(), d.readNumber()}
	d.check(len(b) == headerSize, "is not 1,024 bytes long")
	d.check(isCheckpointName(h.name), "names no checkpoint")
	for _, c := range d.b {
		d.check(c == 0, "goes on behind its end")
	}
	if err := d.wrap("snapshot header"); err != nil {
		return nil, err
	}
	return h, nil
}

// isCheckpointName reports whether a name can be a part of a directory's name: another node sends it.
func isCheckpointName(name string) bool {
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// record says which directories count. One Set of the stable store changes it.
type record struct {
	state    uint64             // number of the state that is in use
	snapshot *header            // nil: there is none, and the log begins at 1
	meta     *raft.SnapshotMeta // of snapshot; nil without one
}

func (r *record) encode() []byte {
	b := binary.AppendUvarint([]byte{format}, r.state)
	if r.snapshot == nil {
		return appendBytes(b, nil)
	}
	b = appendBytes(b, r.snapshot.encode())
	for _, n := range []uint64{r.meta.Index, r.meta.Term, r.meta.ConfigurationIndex} {
		b = binary.AppendUvarint(b, n)
	}
	return appendBytes(b, raft.EncodeConfiguration(r.meta.Configuration))
}

func decodeRecord(b []byte) (r *record, err error) {
	d := decoder{b: b}
	d.readFormat()
	r = &record{state: d.readNumber()}
	if h := d.readBytes(); d.err == nil && len(h) > 0 {
		if r.snapshot, d.err = decodeHeader(h); d.err == nil {
			r.meta = &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, ID: r.snapshot.name, Size: headerSize}
			r.meta.Index, r.meta.Term, r.meta.ConfigurationIndex = d.readNumber(), d.readNumber(), d.readNumber()
			r.meta.Configuration, d.err = decodeConfiguration(d.readBytes(), d.err)
		}
	}
	d.check(len(d.b) == 0, "goes on behind its end")
	return r, d.wrap("record")
}

// decodeConfiguration is raft.DecodeConfiguration, which panics, with an error.
func decodeConfiguration(b []byte, before error) (c raft.Configuration, err error) {
	if before != nil {
		return c, before
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it has a configuration that can't be read: %v", p)
		}
	}()
	return raft.DecodeConfiguration(b), nil
}

// wrap says what could not be read.
func (d *decoder) wrap(what string) error {
	if d.err == nil {
		return nil
	}
	return fmt.Errorf("replicated: %s: %w", what, d.err)
}
