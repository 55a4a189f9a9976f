// Package entry is one version of one key: its order, its kinds, and the record
// in which a journal or value segment keeps it. A version is what others call a commit timestamp
// or sequence number; a handle is a value pointer; a stored key is what LevelDB calls a user key,
// with the number of its keyspace in front.
package entry

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/base/codec"
)

// Version is a commit number: the first commit is 1, and each gets the next one, unless its caller
// gives it a greater one.
// All entries of one transaction share one.
type Version uint64

// MaxVersion is the greatest version that a record can hold.
const MaxVersion Version = 1<<56 - 1

// MaxGiven is the greatest version that a caller may give to a commit: above it there is room for
// so many commits that no store gets there.
const MaxGiven = MaxVersion - 1<<40

// FileNum numbers the files of a store; no number is ever used twice.
type FileNum uint64

// Kind says what an entry does to its key.
type Kind uint8

// The kinds. Numbers are part of the format; 5 and up are reserved for merges
// and what else comes. RangeDelete is the kind of a record only: what it says of
// many keys is no entry, but a rangedel.Delete.
const (
	Set         Kind = 1 // the key has this value
	Delete      Kind = 2 // the key is gone
	SetLatest   Kind = 3 // as Set; versions before it may be dropped at once
	RangeDelete Kind = 4 // the keys from Key up to Value, which is the bound after the last, are gone
)

// Known reports whether this release can read entries of kind k.
func (k Kind) Known() bool { return k >= Set && k <= SetLatest }

// Position is a place in a segment of the journal.
type Position struct {
	Segment   FileNum
	Offset    int64 // in bytes
	Encrypted bool  // the segment is: its records have the encrypted form
}

// Handle is a value pointer: it says where the record of a separated value lies.
type Handle struct {
	Segment FileNum
	Offset  uint64 // of the record in the file, a multiple of 8
	Length  uint64 // of the value as it is stored there, in bytes
}

// Entry is one version of one key. The function that returns or fills an Entry says
// which memory Key and Value point to, and for how long.
type Entry struct {
	Key       []byte // stored key: keyspace prefix, then the user's key
	Value     []byte // inline value, as Codec says; nil when separated or deleted
	Handle    Handle // the value's record, when separated
	Version   Version
	Expires   uint64 // Unix milliseconds from when it is invisible; 0 = never
	Kind      Kind
	Meta      byte // the application's byte
	Separated bool // the value is at Handle
	// Codec is how Value is compressed. Of a separated value only the record at Handle says it:
	// values in runs are not compressed.
	Codec codec.Codec
	Raw   uint32 // length of a compressed value before compression; 0 = it is not compressed
}

// ValueLen is the length of the value, wherever it is and however it is stored.
func (e *Entry) ValueLen() uint64 {
	switch {
	case e.Raw != 0:
		return uint64(e.Raw)
	case e.Separated:
		return e.Handle.Length
	}
	return uint64(len(e.Value))
}

// Stored is a value as its record holds it.
type Stored struct {
	Bytes []byte
	Codec codec.Codec // how Bytes are compressed
	Raw   uint32      // the value's own length if they are, else 0
	Own   bool        // Bytes lie in memory that only the caller has
}

// Live reports whether e is a value that a reader at the time now (Unix
// milliseconds) may see: not a delete, not expired.
func (e *Entry) Live(now uint64) bool {
	return e.Kind != Delete && (e.Expires == 0 || e.Expires > now)
}

// CopyBase makes dst what an operation takes from e, an entry with its value: kind, meta, expiry, and at
// most most+1 bytes of the value, in memory of dst; nothing of a delete.
func (e *Entry) CopyBase(dst *Entry, most int) {
	memory := dst.Value[:0]
	if *dst = (Entry{Kind: Delete, Value: memory}); e.Kind != Delete {
		value := e.Value
		if len(value) > most { // so most+1 can't overflow, where most is the greatest int
			value = value[:most+1]
		}
		*dst = Entry{Kind: e.Kind, Meta: e.Meta, Expires: e.Expires, Value: append(memory, value...)}
	}
}

// Compare orders entries as every run and view does: by key, then newest first.
func Compare(a, b *Entry) int {
	if c := bytes.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	return cmp.Compare(b.Version, a.Version)
}
