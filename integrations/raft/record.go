package raftstore

import (
	"encoding/binary"
	"time"

	"github.com/hashicorp/raft"
)

// The format, as README.md describes it.
const (
	groupFormat  = 1
	recordFormat = 1

	mayHaveGaps = 1 // flag of the header

	hasData       = 1 // flags of a record
	hasExtensions = 2
	hasTime       = 4

	nanosPerSecond = 1_000_000_000
)

// appendKey appends the key of the entry at index. As keys they sort by index.
func appendKey(dst []byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, index)
}

// appendRecord appends the record of l. commit is the commit index when l is written; what is
// above the entry's own index is of no use to who reads it.
func appendRecord(dst []byte, l *raft.Log, commit uint64) []byte {
	flags := byte(0)
	if l.Data != nil {
		flags |= hasData
	}
	if l.Extensions != nil {
		flags |= hasExtensions
	}
	if !l.AppendedAt.IsZero() {
		flags |= hasTime
	}
	dst = append(dst, recordFormat, byte(l.Type), flags)
	dst = binary.AppendUvarint(dst, l.Term)
	// The distance, as it is small: commits are a little behind the end of the log.
	behind := uint64(0)
	if commit > 0 {
		behind = l.Index - min(commit, l.Index) + 1
	}
	dst = binary.AppendUvarint(dst, behind)
	if flags&hasTime != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(l.AppendedAt.Unix()))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(l.AppendedAt.Nanosecond()))
	}
	if flags&hasExtensions != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(l.Extensions)))
		dst = append(dst, l.Extensions...)
	}
	return append(dst, l.Data...)
}

// recordRoom is how many bytes a record has at most beside its data and extensions.
const recordRoom = 3 + 3*binary.MaxVarintLen64 + 12

// recordReader reads the fields of a record one after the other. After the first that is wrong,
// reason says what is.
type recordReader struct {
	rest   []byte
	reason string
}

// readUvarint reads a number in its shortest form.
func (r *recordReader) readUvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.refuse("a number is cut off, or too large")
		return 0
	case n > 1 && r.rest[n-1] == 0:
		r.refuse("a number is longer than it need be")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// readBytes reads n bytes. They end where their capacity does: who appends to them doesn't write
// over what follows.
func (r *recordReader) readBytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.refuse("it is cut off")
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// readTime reads AppendedAt.
func (r *recordReader) readTime() time.Time {
	b := r.readBytes(12)
	if b == nil {
		return time.Time{}
	}
	nanos := binary.LittleEndian.Uint32(b[8:])
	if nanos >= nanosPerSecond {
		r.refuse("nanoseconds make more than a second")
		return time.Time{}
	}
	t := time.Unix(int64(binary.LittleEndian.Uint64(b)), int64(nanos)).UTC()
	if t.IsZero() {
		r.refuse("a time that is not set has a flag")
	}
	return t
}

// refuse notes what is wrong. Nothing more is read.
func (r *recordReader) refuse(reason string) {
	if r.reason == "" {
		r.reason = reason
	}
	r.rest = nil
}

// decodeRecord sets l to the entry whose record is b, and returns the commit index that the record
// has. Data and Extensions are parts of b: it belongs to l from then on. If the record is refused,
// l is as it was.
func decodeRecord(b []byte, index uint64, l *raft.Log) (commit uint64, err *RecordError) {
	if len(b) < 3 {
		return 0, &RecordError{Index: index, Reason: "it is cut off"}
	}
	if b[0] != recordFormat {
		return 0, &RecordError{Index: index, Reason: "its format is not known", Newer: b[0] > recordFormat}
	}
	flags := b[2]
	if flags&^(hasData|hasExtensions|hasTime) != 0 {
		return 0, &RecordError{Index: index, Reason: "it has flags that are not known"}
	}
	read := raft.Log{Index: index, Type: raft.LogType(b[1])}
	r := recordReader{rest: b[3:]}
	read.Term = r.readUvarint()
	behind := r.readUvarint()
	switch {
	case behind > index: // the commit index would be 0, or below
		r.refuse("its commit index is not one")
	case behind > 0:
		commit = index - behind + 1
	}
	if flags&hasTime != 0 {
		read.AppendedAt = r.readTime()
	}
	if flags&hasExtensions != 0 {
		read.Extensions = r.readBytes(r.readUvarint())
	}
	switch {
	case flags&hasData != 0:
		read.Data = r.readBytes(uint64(len(r.rest)))
	case len(r.rest) > 0:
		r.refuse("it has bytes behind its end")
	}
	if r.reason != "" {
		return 0, &RecordError{Index: index, Reason: r.reason}
	}
	*l = read
	return commit, nil
}

// encodeHeader returns the header of a group.
func encodeHeader(gaps bool) []byte {
	flags := byte(0)
	if gaps {
		flags |= mayHaveGaps
	}
	return []byte{groupFormat, flags}
}

// decodeHeader returns what the header of a group says.
func decodeHeader(b []byte) (gaps bool, err *RecordError) {
	switch {
	case len(b) == 0:
		return false, &RecordError{Reason: "it is empty"}
	case b[0] != groupFormat:
		return false, &RecordError{Reason: "its format is not known", Newer: b[0] > groupFormat}
	case len(b) != 2 || b[1]&^mayHaveGaps != 0:
		return false, &RecordError{Reason: "it has flags or bytes that are not known"}
	}
	return b[1]&mayHaveGaps != 0, nil
}
