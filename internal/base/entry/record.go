package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
)

// The record is described in docs/format.md, "Record".
const (
	HeaderSize = 24            // bytes before extension, key and value of a record with its own checksum
	PieceSize  = 64 << 10      // values from 64 KiB on have one checksum for each piece of 64 KiB
	MaxKey     = 1<<20 + 16    // 1 MiB for the user's key, and 16 bytes for its keyspace's prefix
	MaxValue   = math.MaxInt32 // 2 GiB - 1

	flagOwn    = 1 << 60 // the value has a checksum of its own, outside the frame's
	flagExt    = 1 << 61 // an extension follows the header
	flagPieces = 1 << 62 // a table of piece checksums stands before the value
	codecShift = 56
	codecMask  = 0xf

	extExpiry   = 1 << 0
	extRaw      = 1 << 8 // length of the value before it was compressed
	extOptional = 0x00ff // field bits that a reader may skip
	extUnknown  = 0xff00 &^ extRaw

	longKey   = 0xffff
	longValue = 0xffffffff
)

// ErrRecord says that bytes are not a record; the wrapping error says why.
var ErrRecord = errors.New("bad record")

// Record is a decoded record. Key and Value point into the bytes it was decoded from.
// A record without a checksum of its own is short: it says its version only if that was given to its
// transaction, which it begins. Others follow from the records before; see Record.DecodeNext.
type Record struct {
	Key     []byte
	Value   []byte // as stored
	Version Version
	Expires uint64 // Unix milliseconds; 0: never
	Size    int    // encoded length in bytes, with the zeros behind it
	Kind    Kind
	Meta    byte
	Codec   codec.Codec // how Value is compressed; this release may not know it
	// length of a compressed value before compression; 0: it is not compressed
	Raw uint32
	Own bool // Value has its own checksum: it may be read through a Handle

	ValueSize  int    // length of Value in bytes, also if that is not in memory
	valueStart int    // offset of the value (or of its piece table, if any) in the record
	pieces     []byte // table of the pieces' checksums; empty: the value has no pieces
	begins     bool   // a short record, the first one of its transaction
}

// AlignUp rounds n up to the next multiple of 8, where the next record begins.
func AlignUp(n int) int { return (n + 7) &^ 7 }

// RecordSize returns the encoded length of a record of e, without the zeros that PadRecords appends.
// The value of e may be inline or separated.
func RecordSize(e *Entry, own bool) int {
	if !own {
		return shortSize(e)
	}
	value := e.storedLen()
	n := HeaderSize + extensionSize(e) + len(e.Key) + value
	if value >= PieceSize {
		n += 4 * pieceCount(value)
	}
	return AlignUp(n)
}

// storedLen is the length of the value as it is stored, inline or separated.
func (e *Entry) storedLen() int {
	if e.Separated {
		return int(e.Handle.Length)
	}
	return len(e.Value)
}

// extensionSize is the length of the extension in a record of e with its own checksum; 0: it has
// none.
func extensionSize(e *Entry) (n int) {
	if e.Expires != 0 {
		n += 8
	}
	if e.Raw != 0 {
		n += 8
	}
	if n > 0 || len(e.Key) >= longKey {
		n += 8
	}
	return n
}

// AppendRecord appends the record of e to dst. e.Value must be the value. dst must begin where
// a transaction or the payload of a segment begins.
//
// With own, the value gets a checksum of its own, so that it can later be read by a Handle. Such
// a record begins at the next multiple of 8: see PadRecords. Call PlaceRecord before the record is written,
// when its offset is known. A record with a compressed value must be own.
func AppendRecord(dst []byte, e *Entry, own bool) []byte {
	if !own {
		return appendShort(dst, e)
	}
	return PadRecords(appendOwn(PadRecords(dst), e, true))
}

// AppendHead appends what comes before the value in the record of e with its own
// checksum, as AppendRecord does. The value follows, and zeros up to a multiple of 8.
func AppendHead(dst []byte, e *Entry) []byte { return appendOwn(dst, e, false) }

// appendOwn appends a record with its own checksum, or the head of one, without padding.
func appendOwn(dst []byte, e *Entry, whole bool) []byte {
	start := len(dst)
	dst = appendHeader(dst, e)
	if len(e.Value) < PieceSize {
		// Plain, without the mask of a place: PlaceRecord adds that when the offset is known.
		binary.LittleEndian.PutUint32(dst[start+8:], checksum.Plain(e.Value))
		if whole {
			dst = append(dst, e.Value...)
		}
		return dst
	}
	table := len(dst)
	dst = append(dst, make([]byte, 4*pieceCount(len(e.Value)))...)
	end, at := len(dst), table
	for v := e.Value; len(v) > 0; at += 4 {
		part := v[:min(len(v), PieceSize)]
		v = v[len(part):]
		if whole {
			// The checksum is computed from the copy, which is in the processor's cache.
			dst = append(dst, part...)
			part = dst[len(dst)-len(part):]
		}
		binary.LittleEndian.PutUint32(dst[at:], checksum.Plain(part))
	}
	binary.LittleEndian.PutUint32(dst[start+8:], checksum.Plain(dst[table:end]))
	return dst
}

// appendHeader appends header, extension and key of a record with its own checksum.
func appendHeader(dst []byte, e *Entry) []byte {
	var h [HeaderSize]byte
	h[0] = byte(e.Kind)
	h[1] = e.Meta
	binary.LittleEndian.PutUint16(h[2:], uint16(min(len(e.Key), longKey)))
	binary.LittleEndian.PutUint32(h[4:], uint32(len(e.Value)))
	word := uint64(e.Version) | uint64(e.Codec)<<codecShift | flagOwn
	ext := extensionSize(e)
	if ext > 0 {
		word |= flagExt
	}
	if len(e.Value) >= PieceSize {
		word |= flagPieces
	}
	binary.LittleEndian.PutUint64(h[16:], word)
	dst = append(dst, h[:]...)
	if ext == 0 {
		return append(dst, e.Key...)
	}
	fields := uint16(0)
	if e.Expires != 0 {
		fields |= extExpiry
	}
	if e.Raw != 0 {
		fields |= extRaw
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(ext))
	dst = binary.LittleEndian.AppendUint16(dst, fields)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Key)))
	if e.Expires != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, e.Expires)
	}
	if e.Raw != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Raw))
	}
	return append(dst, e.Key...)
}

// RawSize reads from a record's first bytes how long it is, and how many bytes
// come before its own-checksummed value (its whole length if it has none). The
// record must have been decoded or written by this process: nothing is checked. Of a
// short record rec must have all, and what follows it.
func RawSize(rec []byte) (size, head int) {
	if isShort(rec) {
		size = ShortSize(rec)
		return size, size
	}
	return rawOwn(rec)
}

// rawOwn is RawSize for a record with its own checksum.
func rawOwn(rec []byte) (size, head int) {
	word := binary.LittleEndian.Uint64(rec[16:])
	key := int(binary.LittleEndian.Uint16(rec[2:]))
	val := int(binary.LittleEndian.Uint32(rec[4:]))
	head = HeaderSize
	if word&flagExt != 0 {
		if key == longKey {
			key = int(binary.LittleEndian.Uint32(rec[28:]))
		}
		head += int(binary.LittleEndian.Uint16(rec[24:]))
	}
	head += key
	if word&flagPieces != 0 {
		return AlignUp(head + 4*pieceCount(val) + val), head
	}
	return AlignUp(head + val), head
}

// SetVersion writes the version into an encoded record with its own checksum.
func SetVersion(rec []byte, v Version) {
	word := binary.LittleEndian.Uint64(rec[16:])
	binary.LittleEndian.PutUint64(rec[16:], word&^uint64(MaxVersion)|uint64(v))
}

// PlaceRecord binds an encoded record with its own checksum to its offset in the file id. Call it once,
// when the version is final. Short records need none: their frame's checksum binds them.
func PlaceRecord(rec []byte, id checksum.Identity, offset int64, head int) {
	// Checksums are computed before the place is known. A mask that depends on the place is applied
	// here, so that a reader finds out if a record lies at a wrong place.
	mask := id.Mask(offset)
	binary.LittleEndian.PutUint32(rec[8:], binary.LittleEndian.Uint32(rec[8:])^mask)
	binary.LittleEndian.PutUint32(rec[12:], headSum(rec, head)^mask)
}

// UnplaceRecord undoes what PlaceRecord did to the checksum of the value, so that the
// record can be placed elsewhere. The record is whole and was verified.
func UnplaceRecord(rec []byte, id checksum.Identity, offset int64) {
	binary.LittleEndian.PutUint32(rec[8:], binary.LittleEndian.Uint32(rec[8:])^id.Mask(offset))
}

// headSum returns the checksum of the header (without this checksum), the extension and the key.
func headSum(rec []byte, head int) uint32 {
	crc := checksum.Plain(rec[:12])
	return checksum.Extend(crc, rec[16:head])
}

// DecodeRecord decodes the record at the start of src, which may be longer. It
// checks every length against len(src), but no checksum: the frame's, or
// VerifyHead and VerifyValue, do that. The Version of a short record is 0 if it doesn't say it.
func DecodeRecord(src []byte) (r Record, err error) {
	if len(src) > 0 && isShort(src) {
		err = r.decodeShort(src)
	} else {
		err = r.decodeFrom(src, uint64(len(src)), false)
	}
	return r, err
}

// DecodeNext makes r the record at the start of src, as DecodeRecord does, where records follow
// each other in a frame. before is the version of the record before, at first one less than that
// of the first transaction; it becomes the version of this record, whatever its form. With bare,
// src has no piece tables and no values in pieces: the next record begins BareSize bytes further on.
func (r *Record) DecodeNext(src []byte, before *Version, bare bool) (err error) {
	*r = Record{}
	if len(src) > 0 && isShort(src) {
		err = r.decodeShort(src)
		// Versions of a group's transactions follow each other, so the mark is enough.
		if r.begins {
			*before++
		}
		if r.Version != 0 && r.Version < *before && err == nil {
			err = fmt.Errorf("%w: version %d in the place of %d", ErrRecord, r.Version, *before)
		}
		*before = max(*before, r.Version)
		r.Version = *before
		return err
	}
	room := uint64(len(src))
	if bare {
		room = math.MaxInt
	}
	if err = r.decodeFrom(src, room, bare); err == nil && bare && r.BareSize() > len(src) {
		err = fmt.Errorf("%w: %d bytes long, %d are left", ErrRecord, r.BareSize(), len(src))
	}
	*before = r.Version
	return err
}

// DecodeHead is DecodeRecord for a record with its own checksum of at most size bytes,
// of which src has all that comes before the value. Value is nil; ValueSize is its length.
func DecodeHead(src []byte, size int) (r Record, err error) {
	err = r.decodeFrom(src, uint64(size), false)
	return r, err
}

// decodeFrom sets r, which must be zero, to the record with its own checksum at the start of src.
// The record must not be longer than room. With bare, src has no piece table and no value if the
// value has pieces.
func (r *Record) decodeFrom(src []byte, room uint64, bare bool) error {
	pos, klen, err := r.decodeHeader(src)
	if err != nil {
		return err
	}
	table, vlen := uint64(0), uint64(r.ValueSize)
	if vlen >= PieceSize {
		table = 4 * uint64(pieceCount(r.ValueSize))
	} else {
		bare = false
	}
	// This sum can't overflow: each length has at most 32 bits.
	size := (pos + klen + table + vlen + 7) &^ 7
	if bare {
		table = 0
	}
	if size > room || pos+klen+table > uint64(len(src)) {
		return fmt.Errorf("%w: %d bytes long, %d are left", ErrRecord, size, room)
	}
	r.Key = src[pos : pos+klen : pos+klen]
	pos += klen
	r.valueStart = int(pos)
	r.pieces = src[pos : pos+table : pos+table]
	pos += table
	r.Size = int(size)
	// Else the caller has only the head, and reads the value later.
	if size <= uint64(len(src)) && !bare {
		r.Value = src[pos : pos+vlen : pos+vlen]
	}
	return nil
}

// decodeHeader decodes header and extension of the record that decode is about: the key,
// which has klen bytes, begins at pos.
func (r *Record) decodeHeader(src []byte) (pos, klen uint64, err error) {
	if len(src) < HeaderSize {
		return 0, 0, fmt.Errorf("%w: %d bytes are too short for a header", ErrRecord, len(src))
	}
	if isShort(src) || src[0] == 0 {
		return 0, 0, fmt.Errorf("%w: it begins with %#x", ErrRecord, src[0])
	}
	word := binary.LittleEndian.Uint64(src[16:])
	r.Kind, r.Meta = Kind(src[0]), src[1]
	r.Version = Version(word) & MaxVersion
	r.Codec = codec.Codec(word>>codecShift) & codecMask
	r.Own = word&flagOwn != 0
	// All numbers may be damaged: nothing is read or allocated by them before they were compared.
	klen = uint64(binary.LittleEndian.Uint16(src[2:]))
	vlen := binary.LittleEndian.Uint32(src[4:])
	if vlen == longValue || word>>63 != 0 || !r.Own {
		return 0, 0, fmt.Errorf("%w: unknown flag, no checksum of its own, or a value longer than this release reads", ErrRecord)
	}
	pos = HeaderSize
	if word&flagExt != 0 {
		n, err := r.decodeExtension(src[HeaderSize:], &klen)
		if err != nil {
			return 0, 0, err
		}
		pos += n
	} else if klen == longKey {
		return 0, 0, fmt.Errorf("%w: long key without extension", ErrRecord)
	}
	// Without the length before compression, nobody would know how much memory to take.
	if (r.Codec != codec.None) != (r.Raw != 0) {
		return 0, 0, fmt.Errorf("%w: %v of a value of %d bytes", ErrRecord, r.Codec, r.Raw)
	}
	if klen > MaxKey {
		return 0, 0, fmt.Errorf("%w: key of %d bytes", ErrRecord, klen)
	}
	if pieces := word&flagPieces != 0; pieces != (vlen >= PieceSize) {
		return 0, 0, fmt.Errorf("%w: value of %d bytes, piece table %v", ErrRecord, vlen, pieces)
	}
	r.ValueSize = int(vlen)
	return pos, klen, nil
}

// StoredAgain is a fast way to the value of a record that was decoded and verified before. ok is
// false unless the record has this key, version and length of value, and none of the rarer
// fields: then call DecodeRecord, which also says what is wrong.
func StoredAgain(rec, key []byte, v Version, length uint64) (value Stored, ok bool) {
	// One comparison of the whole flag word: no extension, no codec, no pieces.
	if len(rec) < HeaderSize || binary.LittleEndian.Uint64(rec[16:]) != uint64(v)|flagOwn ||
		binary.LittleEndian.Uint16(rec[2:]) != uint16(len(key)) || uint64(binary.LittleEndian.Uint32(rec[4:])) != length {
		return value, false
	}
	rec = rec[HeaderSize:]
	// The record may have changed on the disk since: lengths are compared before they are used.
	if len(key) >= longKey || length >= PieceSize || length > uint64(len(rec)) || uint64(len(key)) > uint64(len(rec))-length || !bytes.Equal(rec[:len(key)], key) {
		return value, false
	}
	end := len(key) + int(length)
	return Stored{Bytes: rec[len(key):end:end]}, true
}

// decodeExtension decodes the extension at the start of src, and returns its length. It sets *klen
// if the key's length is there.
func (r *Record) decodeExtension(src []byte, klen *uint64) (uint64, error) {
	if len(src) < 8 {
		return 0, fmt.Errorf("%w: no room for an extension", ErrRecord)
	}
	size := uint64(binary.LittleEndian.Uint16(src))
	fields := binary.LittleEndian.Uint16(src[2:])
	if size < 8 || size&7 != 0 || size > uint64(len(src)) {
		return 0, fmt.Errorf("%w: extension of %d bytes", ErrRecord, size)
	}
	// A reader that skipped a required field would misunderstand the value.
	if fields&extUnknown != 0 {
		return 0, fmt.Errorf("%w: required extension %#x is unknown", ErrRecord, fields&extUnknown)
	}
	if *klen == longKey {
		*klen = uint64(binary.LittleEndian.Uint32(src[4:]))
	}
	if fields&extExpiry != 0 {
		if size < 16 {
			return 0, fmt.Errorf("%w: extension of %d bytes without its expiry", ErrRecord, size)
		}
		r.Expires = binary.LittleEndian.Uint64(src[8:])
	}
	// Optional fields that this release doesn't know stand before it.
	if fields&extRaw != 0 {
		at := 8 + 8*uint64(bits.OnesCount16(fields&extOptional))
		if at+8 > size {
			return 0, fmt.Errorf("%w: extension of %d bytes without its length", ErrRecord, size)
		}
		raw := binary.LittleEndian.Uint64(src[at:])
		if raw == 0 || raw > codec.MaxLength {
			return 0, fmt.Errorf("%w: compressed value of %d bytes", ErrRecord, raw)
		}
		r.Raw = uint32(raw)
	}
	return size, nil
}

// UnpaddedSize returns the encoded length of the record without the zeros behind it.
func (r *Record) UnpaddedSize() int { return r.valueStart + len(r.pieces) + r.ValueSize }

// Entry is the entry that the record is, with its value as the record holds it.
func (r *Record) Entry() Entry {
	return Entry{Key: r.Key, Value: r.Value, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta, Codec: r.Codec, Raw: r.Raw}
}

// Stored is the value as the record holds it.
func (r *Record) Stored() Stored { return Stored{Bytes: r.Value, Codec: r.Codec, Raw: r.Raw} }

// VerifyHead checks header and key of a record with its own checksum that
// begins at offset of the file id; rec is what DecodeRecord was given.
func (r *Record) VerifyHead(rec []byte, id checksum.Identity, offset int64) bool {
	return r.Own && binary.LittleEndian.Uint32(rec[12:]) == headSum(rec, r.valueStart)^id.Mask(offset)
}

// VerifyValue checks the value of a record with its own checksum.
func (r *Record) VerifyValue(rec []byte, id checksum.Identity, offset int64) bool {
	if len(r.pieces) == 0 {
		return checksum.Plain(r.Value) == binary.LittleEndian.Uint32(rec[8:])^id.Mask(offset)
	}
	return r.VerifyTable(rec, id, offset) && r.VerifyPieces(0, r.Value)
}

// VerifyTable checks the checksums of the pieces of a value that has PieceSize bytes or
// more, in a record that begins at offset of the file id.
func (r *Record) VerifyTable(rec []byte, id checksum.Identity, offset int64) bool {
	return len(r.pieces) > 0 && checksum.Plain(r.pieces) == binary.LittleEndian.Uint32(rec[8:])^id.Mask(offset)
}

// VerifyPieces checks the part of the value that begins at offset at, a multiple of
// PieceSize, and ends with a piece.
func (r *Record) VerifyPieces(at int, part []byte) bool {
	for i := at / PieceSize; len(part) > 0; i++ {
		n := min(len(part), PieceSize)
		if checksum.Plain(part[:n]) != binary.LittleEndian.Uint32(r.pieces[4*i:]) {
			return false
		}
		part = part[n:]
	}
	return true
}

// KeyEnd returns how many bytes of the record come before the value, or before its piece table.
func (r *Record) KeyEnd() int { return r.valueStart }

// pieceCount is how many pieces a value of n bytes has.
func pieceCount(n int) int { return (n + PieceSize - 1) / PieceSize }
