package memtable

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
)

// writeRecord copies e into the arena as a record. The record is not linked to others yet.
func (a *arena) writeRecord(e *entry.Entry) (ref, *record, error) {
	head := record{
		word:  uint64(e.Version)<<8 | uint64(e.Kind)&kindMask,
		key:   uint32(e.Meta)<<24 | uint32(len(e.Key)),
		value: uint32(len(e.Value)),
	}
	if e.Expires != 0 {
		head.word |= flagExpires
	}
	var outside ref
	var err error
	switch {
	case e.Separated:
		head.word |= flagSeparated
		head.value = uint32(e.Handle.Length)
		if e.Raw != 0 {
			head.word |= flagRaw
		}
	case len(e.Value) >= outsideSize:
		head.word |= flagOutside
		if outside, err = a.outside.reserveBytes(len(e.Value)); err != nil {
			return 0, nil, err
		}
		copy(a.outside.at(outside).bytesAt(0, len(e.Value)), e.Value)
		a.outside.bytes.Add(int64(len(e.Value)))
	}
	// The value comes first: if this fails, only its block is wasted, and no record is half made.
	n := head.recordSize()
	place, err := a.reserveBytes(n)
	if err != nil {
		return 0, nil, err
	}
	// No reader knows the place yet, so plain stores will do.
	r := a.at(place)
	r.word, r.key, r.value = head.word, head.key, head.value
	data := r.bytesAt(keyStart, n-keyStart)
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

// readRecord sets e to the entry of r. Key and value lie in the arena.
func (a *arena) readRecord(r *record, e *entry.Entry) {
	n := r.keyLen()
	e.Key = r.bytesAt(keyStart, n)
	e.Version = r.version()
	e.Kind = entry.Kind(r.word & kindMask)
	e.Meta = byte(r.key >> 24)
	e.Expires, e.Raw, e.Codec = 0, 0, codec.None
	e.Separated = false
	// The order of the fields is that of writeRecord.
	off := keyStart + n
	if r.word&flagExpires != 0 {
		e.Expires = binary.LittleEndian.Uint64(r.bytesAt(off, 8))
		off += 8
	}
	length := int(r.value)
	switch {
	case r.word&flagSeparated != 0:
		e.Value = nil
		e.Handle = r.handle()
		e.Separated = true
		if r.word&flagRaw != 0 {
			e.Raw = binary.LittleEndian.Uint32(r.bytesAt(off+16, 4))
		}
		return
	case r.word&flagOutside != 0:
		at := ref(binary.LittleEndian.Uint32(r.bytesAt(off, 4)))
		e.Value = a.outside.at(at).bytesAt(0, length)
	case e.Kind == entry.Delete:
		e.Value = nil
	default:
		e.Value = r.bytesAt(off, length)
	}
	e.Handle = entry.Handle{}
}

// eachRecord calls fn for each record from the place from to end, in order of arrival, until fn
// returns false. end must have been read from extent: then all records before it are complete.
func (a *arena) eachRecord(from, end ref, fn func(ref, *record) bool) {
	for p := max(from, 1); p != end; {
		r := a.at(p)
		// A record without a key is the jump at the end of a block.
		if r.keyLen() == 0 {
			p = ref(r.older.Load())
			invariant.Check(p != 0, "the walk met the end of a block that has no successor")
			continue
		}
		if !fn(p, r) {
			return
		}
		p += ref(r.recordSize() / 8)
	}
}
