package memtable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"sync/atomic"
	"unsafe" // records are laid out and read in place in the arena

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/entry"
)

// record heads an entry in the arena. The key follows its fields at keyStart;
// then come the expiry (8 bytes, if there is one) and the value: its bytes, or
// the segment and offset of its handle (8 bytes each) and, of a compressed one,
// its length before that (4 bytes), or the ref of a block of its own (4 bytes).
//
// Only older changes after the record is published. A record without a key
// ends a block, and its older is the place where the walk goes on.
type record struct {
	word  uint64        // version << 8 | flags | kind
	older atomic.Uint32 // ref of the next older version of the key
	key   uint32        // meta << 24 | length
	value uint32        // length
}

const (
	headerSize = int(unsafe.Sizeof(record{})) // 24: the key begins in its padding
	keyStart   = int(unsafe.Offsetof(record{}.value)) + 4

	kindMask      = 0x7
	flagSeparated = 1 << 3
	flagExpires   = 1 << 4
	flagOutside   = 1 << 5
	flagRaw       = 1 << 6
	keyMask       = 1<<24 - 1

	outsideSize = 1 << 20 // inline values of at least this size get their own block
)

func (r *record) version() entry.Version { return entry.Version(r.word >> 8) }

func (r *record) keyLen() int { return int(r.key & keyMask) }

func (r *record) bytes(off, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), off)), n)
}

func (r *record) keyBytes() []byte { return r.bytes(keyStart, r.keyLen()) }

// size is the length of the record in the arena.
func (r *record) size() int {
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

// keyWord is the 8 bytes of key from skip on as a number that sorts as they do,
// padded with zeros.
func keyWord(key []byte, skip int) uint64 {
	key = key[min(skip, len(key)):]
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var w uint64
	for i, b := range key {
		w |= uint64(b) << (56 - 8*i)
	}
	return w
}

// compareRecords orders by key, then newest first; equal entries compare as 0.
func compareRecords(a, b *record) int {
	if c := bytes.Compare(a.keyBytes(), b.keyBytes()); c != 0 {
		return c
	}
	return cmp.Compare(b.version(), a.version())
}

// write puts e into the arena, linked to nothing.
func (t *Table) write(e *entry.Entry) (ref, *record, error) {
	word := uint64(e.Version)<<8 | uint64(e.Kind)&kindMask
	n, length := keyStart+len(e.Key), len(e.Value)
	if e.Expires != 0 {
		word |= flagExpires
		n += 8
	}
	var outside ref
	switch {
	case e.Separated:
		word |= flagSeparated
		n += 16
		if e.Raw != 0 {
			word |= flagRaw
			n += 4
		}
		length = int(e.Handle.Length)
	case length >= outsideSize:
		word |= flagOutside
		n += 4
		at, p, err := t.arena.place(length)
		if err != nil {
			return 0, nil, err
		}
		outside = at
		copy(unsafe.Slice((*byte)(p), length), e.Value)
	default:
		n += length
	}
	place, err := t.arena.reserve(n)
	if err != nil {
		return 0, nil, err
	}
	r := (*record)(t.arena.at(place))
	r.word = word
	r.key = uint32(e.Meta)<<24 | uint32(len(e.Key))
	r.value = uint32(length)
	data := r.bytes(keyStart, n-keyStart)
	data = data[copy(data, e.Key):]
	if e.Expires != 0 {
		binary.LittleEndian.PutUint64(data, e.Expires)
		data = data[8:]
	}
	switch {
	case e.Separated:
		binary.LittleEndian.PutUint64(data, uint64(e.Handle.Segment))
		binary.LittleEndian.PutUint64(data[8:], e.Handle.Offset)
		if e.Raw != 0 {
			binary.LittleEndian.PutUint32(data[16:], e.Raw)
		}
	case outside != 0:
		binary.LittleEndian.PutUint32(data, uint32(outside))
	default:
		copy(data, e.Value)
	}
	return place, r, nil
}

// read makes e the entry at r; its key and value lie in the arena.
func (t *Table) read(r *record, e *entry.Entry) {
	n := r.keyLen()
	e.Key = r.bytes(keyStart, n)[:n:n]
	e.Version = r.version()
	e.Kind = entry.Kind(r.word & kindMask)
	e.Meta = byte(r.key >> 24)
	e.Expires, e.Raw, e.Codec = 0, 0, codec.None
	e.Separated = false
	off := keyStart + n
	if r.word&flagExpires != 0 {
		e.Expires = binary.LittleEndian.Uint64(r.bytes(off, 8))
		off += 8
	}
	length := int(r.value)
	switch {
	case r.word&flagSeparated != 0:
		e.Value = nil
		e.Handle = r.handle()
		e.Separated = true
		if r.word&flagRaw != 0 {
			e.Raw = binary.LittleEndian.Uint32(r.bytes(off+16, 4))
		}
		return
	case r.word&flagOutside != 0:
		at := ref(binary.LittleEndian.Uint32(r.bytes(off, 4)))
		e.Value = unsafe.Slice((*byte)(t.arena.at(at)), length)
	case e.Kind == entry.Delete:
		e.Value = nil
	default:
		e.Value = r.bytes(off, length)[:length:length]
	}
	e.Handle = entry.Handle{}
}

// handle is where the value of a separated record lies.
func (r *record) handle() entry.Handle {
	off := keyStart + r.keyLen()
	if r.word&flagExpires != 0 {
		off += 8
	}
	b := r.bytes(off, 16)
	return entry.Handle{
		Segment: entry.FileNum(binary.LittleEndian.Uint64(b)),
		Offset:  binary.LittleEndian.Uint64(b[8:]),
		Length:  uint64(r.value),
	}
}
