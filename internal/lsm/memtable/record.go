package memtable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"sync/atomic"
	"unsafe" // records are laid out and read in place in the arena

	"github.com/brockdb/brock/internal/base/entry"
)

// ref is the place of a record in the arena, in units of 8 bytes. 0 is no record. It is short so
// that a bucket has room for the leading bits of the hash beside it.
type ref uint32

const (
	refBits  = 29 // 4 GiB in units of 8 bytes
	refLimit = 1 << refBits
	refMask  = refLimit - 1
)

// record is the header of an entry in the arena. Behind it come
//
//   - the key, at keyStart
//   - the expiry, if there is one (8 bytes)
//   - the value. An inline value: its bytes or, from 1 MiB on, its ref in the arena
//     of outside values (4 bytes). A separated value: segment and offset of its handle
//     (8 bytes each) and, if it is compressed, its raw length (4 bytes).
//
// Once readers can see the record, only older changes. A record without a key ends a block:
// its older is the ref of the next block's first record.
type record struct {
	word  uint64        // version << 8 | flags | kind
	older atomic.Uint32 // ref of the next older version of the key; 0: there is none
	key   uint32        // meta << 24 | length
	value uint32        // length of the value
}

const (
	headerSize = int(unsafe.Sizeof(record{})) // 24: the key begins in its padding
	keyStart   = int(unsafe.Offsetof(record{}.value)) + 4

	kindMask      = 0x7       // bits of word
	flagSeparated = 1 << 3    // the value is in a value segment; the record has its handle
	flagExpires   = 1 << 4    // there is an expiry
	flagOutside   = 1 << 5    // the value is in the arena of outside values
	flagRaw       = 1 << 6    // the separated value is compressed; the record has its raw length
	keyMask       = 1<<24 - 1 // bits of record.key that are the length

	outsideSize = 1 << 20 // inline values of at least 1 MiB lie outside of the records
)

func (r *record) version() entry.Version { return entry.Version(r.word >> 8) }

func (r *record) keyLen() int { return int(r.key & keyMask) }

// bytesAt returns n bytes of the record, from off on. They lie in the arena.
func (r *record) bytesAt(off, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), off)), n)
}

func (r *record) keyBytes() []byte { return r.bytesAt(keyStart, r.keyLen()) }

// recordSize is the length of the record in the arena, as its header tells it.
func (r *record) recordSize() int {
	n := keyStart + r.keyLen()
	if r.word&flagExpires != 0 {
		n += 8
	}
	switch {
	case r.word&flagRaw != 0:
		n += 20
	case r.word&flagSeparated != 0:
		n += 16
	case r.word&flagOutside != 0:
		n += 4
	default:
		n += int(r.value)
	}
	return (n + 7) &^ 7
}

// compareRecords orders by key, then newest first; equal entries compare as 0.
func compareRecords(a, b *record) int {
	if c := bytes.Compare(a.keyBytes(), b.keyBytes()); c != 0 {
		return c
	}
	return cmp.Compare(b.version(), a.version())
}

// handle returns the handle of a record with a separated value.
func (r *record) handle() entry.Handle {
	off := keyStart + r.keyLen()
	if r.word&flagExpires != 0 {
		off += 8
	}
	b := r.bytesAt(off, 16)
	return entry.Handle{
		Segment: entry.FileNum(binary.LittleEndian.Uint64(b)),
		Offset:  binary.LittleEndian.Uint64(b[8:]),
		Length:  uint64(r.value),
	}
}
