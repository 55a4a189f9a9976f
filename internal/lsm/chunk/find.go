package chunk

import (
	"bytes"
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// How a chunk of a damaged file is found without the directory: by its trailer.

// FindTrailer reports whether b is a trailer, at offset of the file f, and returns layout and
// statistics of the chunk before it. It needs no directory. If the file is encrypted, FindTrailer
// decrypts a copy of the trailer.
func FindTrailer(b []byte, f *pageio.Paged, offset int64) (l Layout, stats Stats, ok bool) {
	if f.Key != nil {
		b = append(make([]byte, 0, len(b)+Room), b...)
	}
	if proveTrailer(b, f, offset) != nil {
		return l, stats, false
	}
	t, l, err := parseTrailer(b, f.Key != nil)
	if err != nil {
		return l, stats, false
	}
	return l, t.Stats, l.endsBefore(offset)
}

// endsBefore reports whether a chunk of this layout can lie before a trailer at offset.
func (l *Layout) endsBefore(offset int64) bool {
	// Each length is compared with what is there before lengths are added: no sum of hostile
	// numbers wraps around.
	return l.End > HeaderSize && l.End%8 == 0 && int64(l.End) <= offset && int64(l.Buckets) <= offset/bucketSize &&
		l.Prefix <= entry.MaxKey && int64(l.TrailerStart()) <= offset
}

// TrailerSize returns the length of the trailer at offset of the file that b, of a page or more,
// may begin with; 0 if it can't be one. The end of entries must fit, too, where it is not
// encrypted: else any page with the right four bytes would have megabytes read and summed up, and
// a version in the header of an entry is enough for that.
func TrailerSize(b []byte, offset int64, encrypted bool) int {
	const most = 1 << 26 // 64 MiB: the longest that is written, for an entry of 2 GiB, has at most 53 MiB (trailerBound)
	if encrypted {
		// Of its bytes, only the zeros and the length behind the tag are clear.
		if b = b[crypt.TagSize:]; binary.LittleEndian.Uint32(b) != 0 {
			return 0
		}
	} else if end := binary.LittleEndian.Uint64(b[8:]); end <= HeaderSize || end%8 != 0 || end > uint64(offset) {
		return 0
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n%PageSize != 0 || n > most {
		return 0
	}
	return int(n)
}

// OwnerOf returns the store that the header of a chunk in file num names; ok is false if head
// is no such header.
func OwnerOf(head []byte, num entry.FileNum) (uuid [16]byte, ok bool) {
	o := Owner{UUID: [16]byte(head[16:32]), Num: num}
	var want [HeaderSize]byte
	o.putBytes(want[:])
	return o.UUID, bytes.Equal(head[:HeaderSize], want[:])
}
