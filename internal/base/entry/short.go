package entry

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The short form of records, which have no checksum of their own: docs/format.md, "Record". It is a
// byte of flags, the lengths of key and value as varints, the optional fields (meta, expiry, then
// version), key and value.
const (
	shortForm    = 1 << 7 // set in the first byte of a short record, and of no other
	shortVersion = 1 << 6 // 8 bytes: it begins a transaction, whose version was given
	shortExpiry  = 1 << 5 // 8 bytes
	shortMeta    = 1 << 4 // 1 byte
	shortBegins  = 1 << 3 // first record of its transaction
	shortKind    = 1<<3 - 1

	mostZeros = 7 // behind a short record, up to a multiple of 8
)

// PadRecords appends zeros up to a multiple of 8 bytes. The records of a transaction have such a length,
// and so has what stands before a record with its own checksum.
func PadRecords(records []byte) []byte {
	for len(records)&7 != 0 {
		records = append(records, 0)
	}
	return records
}

// KindOf is the kind of an encoded record.
func KindOf(rec []byte) Kind {
	if isShort(rec) {
		return Kind(rec[0] & shortKind)
	}
	return Kind(rec[0])
}

// MarkBegin marks an encoded record as the first one of its transaction. Only a short
// record needs the mark: others have their version.
func MarkBegin(rec []byte) {
	if isShort(rec) {
		rec[0] |= shortBegins
	}
}

// VersionSize is how many bytes a short record takes to say its version.
const VersionSize = 8

// VersionAt is where in an encoded record its version is to be put: behind the other fields of a
// short one. It is 0 for others, which have their version.
func VersionAt(rec []byte) int {
	if !isShort(rec) {
		return 0
	}
	at, _, _ := shortHead(rec)
	return at
}

// PutVersion makes a short record, in which VersionSize bytes are free at its VersionAt, the first
// one of a transaction with a given version.
func PutVersion(rec []byte, at int, v Version) {
	rec[0] |= shortVersion | shortBegins
	binary.LittleEndian.PutUint64(rec[at:], uint64(v))
}

// InsertVersion makes the record that begins at this place, and is the last one of dst, the first one of a
// transaction with a given version. It returns dst, which a short record makes longer.
func InsertVersion(dst []byte, at int, v Version) []byte {
	if i := VersionAt(dst[at:]); i > 0 {
		dst = slices.Insert(dst, at+i, make([]byte, VersionSize)...)
		PutVersion(dst[at:], i, v)
	}
	return dst
}

// SaysVersion reports whether an encoded record begins a transaction of this version, and says so.
func SaysVersion(rec []byte, v Version) bool {
	r, err := DecodeRecord(rec)
	return err == nil && r.begins && r.Version == v
}

// isShort reports whether the record that rec begins with has the short form.
func isShort(rec []byte) bool { return rec[0]&shortForm != 0 }

// shortSize is the encoded length of a short record of e, without zeros behind it.
func shortSize(e *Entry) int {
	value := e.storedLen()
	n := 1 + uvarintSize(len(e.Key)) + uvarintSize(value) + len(e.Key) + value
	if e.Meta != 0 {
		n++
	}
	if e.Expires != 0 {
		n += 8
	}
	return n
}

// uvarintSize is the length of v as a varint.
func uvarintSize(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// appendShort appends the record of e in the short form. It doesn't say the version.
func appendShort(dst []byte, e *Entry) []byte {
	first := shortForm | byte(e.Kind)
	if e.Meta != 0 {
		first |= shortMeta
	}
	if e.Expires != 0 {
		first |= shortExpiry
	}
	dst = append(dst, first)
	dst = binary.AppendUvarint(dst, uint64(len(e.Key)))
	dst = binary.AppendUvarint(dst, uint64(len(e.Value)))
	if e.Meta != 0 {
		dst = append(dst, e.Meta)
	}
	if e.Expires != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, e.Expires)
	}
	return append(append(dst, e.Key...), e.Value...)
}

// shortHead reads the lengths of the short record that src begins with. Its key begins
// at head, behind its other fields; head is 0 if src doesn't have all of the record.
func shortHead(src []byte) (head, key, value int) {
	pos := 3
	// The usual case, both lengths in one byte, without calls.
	if len(src) >= 3 && src[1]|src[2] < 0x80 {
		key, value = int(src[1]), int(src[2])
	} else {
		k, n := binary.Uvarint(src[1:])
		// Bounded before the sum below, which so can't overflow.
		if n <= 0 || k > MaxKey {
			return 0, 0, 0
		}
		v, m := binary.Uvarint(src[1+n:])
		if m <= 0 || v > MaxValue {
			return 0, 0, 0
		}
		key, value, pos = int(k), int(v), 1+n+m
	}
	if src[0]&(shortMeta|shortExpiry|shortVersion) != 0 {
		if src[0]&shortMeta != 0 {
			pos++
		}
		if src[0]&shortExpiry != 0 {
			pos += 8
		}
		if src[0]&shortVersion != 0 {
			pos += VersionSize
		}
	}
	if pos > len(src) || key > len(src)-pos || value > len(src)-pos-key {
		return 0, 0, 0
	}
	return pos, key, value
}

// decodeShort makes r, which must be the zero Record, the short record that src begins with, with
// the zeros behind it.
func (r *Record) decodeShort(src []byte) error {
	first := src[0]
	head, key, value := shortHead(src)
	if head == 0 || first&(shortVersion|shortBegins) == shortVersion || first&shortKind == 0 {
		return fmt.Errorf("%w: short record, flags and kind %#x, %d bytes are left", ErrRecord, first, len(src))
	}
	start := head + key
	end := start + value
	r.Key, r.Value = src[head:start:start], src[start:end:end]
	r.Kind, r.begins = Kind(first&shortKind), first&shortBegins != 0
	r.ValueSize, r.valueStart, r.Size = value, start, endWithZeros(src, end)
	if first&shortVersion != 0 {
		if r.Version = Version(binary.LittleEndian.Uint64(src[head-VersionSize:])); r.Version == 0 || r.Version > MaxVersion {
			return fmt.Errorf("%w: short record of version %d", ErrRecord, r.Version)
		}
		head -= VersionSize
	}
	if first&shortExpiry != 0 {
		r.Expires = binary.LittleEndian.Uint64(src[head-8:])
		head -= 8
	}
	if first&shortMeta != 0 {
		r.Meta = src[head-1]
	}
	return nil
}

// ShortSize is the encoded length of the record that rec begins with, with the zeros
// behind it, if it is a short one and whole; else 0.
func ShortSize(rec []byte) int {
	head, key, value := shortHead(rec)
	if !isShort(rec) || head == 0 {
		return 0
	}
	return endWithZeros(rec, head+key+value)
}

// endWithZeros is end and the zeros behind it, which belong to a short record that ends
// there: no record begins with one.
func endWithZeros(src []byte, end int) int {
	if end == len(src) || src[end] != 0 {
		return end
	}
	// Padding is at most 7 zeros: a longer stretch of zeros is damage, which the next record shows.
	limit := min(end+mostZeros, len(src))
	for end < limit && src[end] == 0 {
		end++
	}
	return end
}
