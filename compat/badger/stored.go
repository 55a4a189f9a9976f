package badger

import (
	"bytes"
	"encoding/binary"
	"math"
)

// What a managed store keeps in Brock. A caller of managed mode gives versions in any order, which no
// commit of Brock takes. So each version of a key is a pair of its own:
//
//	key:   the user's key, each 0x00 written as 0x00 0xff, then 0x00 0x01, then ^version, 8 bytes big-endian
//	value: expiry, 8 bytes little-endian, if flagExpires; UserMeta, 1 byte, if flagUserMeta; the user's value
//	meta:  the flags of the version
//
// The stored order is that of the user's keys, and of one key the newest version comes first. Flags are
// in the meta byte and not in the key: of two writes at one version the last one must win, so both must
// have one stored key. A delete is a version with flagDeleted.

const (
	escapeByte   = 0x00
	escapedZero  = 0xff // behind escapeByte: a zero byte of the key
	keyEnd       = 0x01 // behind escapeByte: the key has ended
	behindKey    = 0x02 // behind escapeByte: above all versions of the key
	versionBytes = 8
)

// appendEscaped appends the user's key as it is stored, without its end: a prefix of the stored keys
// that begin with it.
func appendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, escapeByte)
		if i < 0 {
			return append(dst, key...)
		}
		dst = append(append(dst, key[:i]...), escapeByte, escapedZero)
		key = key[i+1:]
	}
}

// appendStored appends the stored key of a version of key.
func appendStored(dst, key []byte, version uint64) []byte {
	return appendVersion(append(appendEscaped(dst, key), escapeByte, keyEnd), version)
}

// appendVersion appends a version to a stem.
func appendVersion(stem []byte, version uint64) []byte {
	return binary.BigEndian.AppendUint64(stem, ^version)
}

// appendBehind appends the least stored key above all versions of key.
func appendBehind(dst, key []byte) []byte {
	return append(appendEscaped(dst, key), escapeByte, behindKey)
}

// parseStored splits a stored key into its stem, which all versions of the key have in common, and the
// version. Not ok: it is no stored key.
func parseStored(stored []byte) (stem []byte, version uint64, ok bool) {
	n := len(stored) - versionBytes
	if n < 2 || stored[n-2] != escapeByte || stored[n-1] != keyEnd {
		return nil, 0, false
	}
	return stored[:n], ^binary.BigEndian.Uint64(stored[n:]), true
}

// userKeyOf returns the user's key of a stem: a part of the stem, or in scratch if bytes were escaped.
func userKeyOf(stem, scratch []byte) []byte {
	stem = stem[:len(stem)-2]
	if bytes.IndexByte(stem, escapeByte) < 0 {
		return stem
	}
	scratch = scratch[:0]
	for {
		i := bytes.IndexByte(stem, escapeByte)
		if i < 0 {
			return append(scratch, stem...)
		}
		scratch = append(scratch, stem[:i+1]...)
		stem = stem[min(i+2, len(stem)):]
	}
}

// behindStem changes the copy of a stem into the least stored key above all its versions.
func behindStem(dst, stem []byte) []byte {
	dst = append(dst[:0], stem...)
	dst[len(dst)-1] = behindKey
	return dst
}

// storedValue returns meta byte and value of an entry as a version stores them. The value is that of e,
// or in scratch, which is returned for the next call.
func (e *Entry) storedValue(scratch []byte) (meta byte, value, room []byte) {
	meta = e.flags
	if e.flags&flagDeleted != 0 {
		return meta, nil, scratch
	}
	if e.ExpiresAt == 0 && e.UserMeta == 0 {
		return meta, e.Value, scratch
	}
	scratch = scratch[:0]
	if e.ExpiresAt != 0 {
		meta |= flagExpires
		scratch = binary.LittleEndian.AppendUint64(scratch, e.ExpiresAt)
	}
	if e.UserMeta != 0 {
		meta |= flagUserMeta
		scratch = append(scratch, e.UserMeta)
	}
	scratch = append(scratch, e.Value...)
	return meta, scratch, scratch
}

// headerLen is how many bytes stand in front of the user's value.
func headerLen(meta byte) int {
	n := 0
	if meta&flagExpires != 0 {
		n += 8
	}
	if meta&flagUserMeta != 0 {
		n++
	}
	return n
}

// parseHeader returns what stands in front of the user's value; ok is false if it is cut off.
func parseHeader(meta byte, value []byte) (expiresAt uint64, userMeta byte, ok bool) {
	if len(value) < headerLen(meta) {
		return 0, 0, false
	}
	if meta&flagExpires != 0 {
		expiresAt, value = binary.LittleEndian.Uint64(value), value[8:]
	}
	if meta&flagUserMeta != 0 {
		userMeta = value[0]
	}
	return expiresAt, userMeta, true
}

// newestTs is the version that reads of a managed store without one see.
const newestTs = math.MaxUint64
