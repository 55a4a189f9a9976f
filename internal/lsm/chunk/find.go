package chunk

import (
	"bytes"
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// How a chunk of a damaged file is found without the directory: by its trailer.

// FindTrailer reports whether b begins with a whole trailer, which lies at offset of the file
// id, and returns layout and statistics of the chunk before it. It needs no directory. With a
// key it decrypts a copy of the trailer.
func FindTrailer(b []byte, id checksum.Identity, key *crypt.Decrypter, offset int64) (l Layout, stats Stats, ok bool) {
	size := TrailerSize(b, offset, key != nil)
	if size == 0 || size > len(b) {
		return l, stats, false
	}
	whole := b[:size]
	if key == nil {
		ok = binary.LittleEndian.Uint32(b) == id.Sum(offset, whole[4:])
		b = whole
	} else {
		whole = append(make([]byte, 0, size+Room), whole...)
		ok = decryptTrailer(whole, offset, key) == nil
		b = whole[crypt.TagSize:]
	}
	if ok {
		l, stats, ok = layoutOf(b, size, offset)
	}
	if !ok {
		return l, stats, false
	}
	_, err := parseTrailer(whole, &l, key != nil)
	return l, stats, err == nil
}

// layoutOf returns the layout of the chunk whose trailer takes size bytes at offset. b is the
// trailer, without its tag.
func layoutOf(b []byte, size int, offset int64) (l Layout, stats Stats, ok bool) {
	end, ok := entriesEnd(b, offset)
	if !ok {
		return l, stats, false
	}
	l = Layout{End: end, TrailerSize: size}
	err := Sections(b[16:], func(tag uint16, _ int, p []byte) (bool, error) {
		switch {
		case tag == secPrefix:
			l.Prefix = len(p)
		case tag == secIndex && len(p) == 8:
			l.Buckets = int(binary.LittleEndian.Uint32(p[4:]))
		case tag == secStat && len(p) >= 16+StatsSize:
			l.VersionBase, l.SegmentBase = entry.Version(binary.LittleEndian.Uint64(p)), entry.FileNum(binary.LittleEndian.Uint64(p[8:]))
			stats = DecodeStats(p[16:])
		}
		return true, nil
	})
	return l, stats, err == nil && l.endsBefore(offset)
}

// endsBefore reports whether a chunk of this layout can lie before a trailer at offset. Lengths
// are compared with what is there before they are added.
func (l *Layout) endsBefore(offset int64) bool {
	return int64(l.Buckets) <= offset/bucketSize && l.Prefix <= entry.MaxKey && int64(l.TrailerStart()) <= offset
}

// TrailerSize returns the length of the trailer at offset of the file that b, of a page or more,
// may begin with; 0 if it can't be one. The end of entries must fit, too, where it is not
// encrypted: else any page with the right four bytes would have megabytes read and summed up, and
// a version in the header of an entry is enough for that.
func TrailerSize(b []byte, offset int64, encrypted bool) int {
	const most = 1 << 26 // 64 MiB: the longest that is written, for an entry of 2 GiB, has at most 34 MiB (trailerBound)
	n := binary.LittleEndian.Uint32(b[4:])
	if encrypted {
		n = clearLength(b)
	} else if _, ok := entriesEnd(b, offset); !ok {
		return 0
	}
	if n == 0 || n%PageSize != 0 || n > most {
		return 0
	}
	return int(n)
}

// entriesEnd returns where the entries end, in their chunk, before the trailer b at offset of
// the file; b is as it is without a tag. ok is false if they can't.
func entriesEnd(b []byte, offset int64) (end int, ok bool) {
	n := binary.LittleEndian.Uint64(b[8:])
	return int(n), n > HeaderSize && n%8 == 0 && n <= uint64(offset)
}

// OwnerOf returns the store that the header of a chunk in file num names; ok is false if head
// is no such header.
func OwnerOf(head []byte, num entry.FileNum) (uuid [16]byte, ok bool) {
	o := Owner{UUID: [16]byte(head[16:32]), Num: num}
	var want [HeaderSize]byte
	o.putBytes(want[:])
	return o.UUID, bytes.Equal(head[:HeaderSize], want[:])
}
