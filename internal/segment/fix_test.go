package segment

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/frame"
)

// sumHeader makes the checksum of a segment header right.
func sumHeader(page []byte) {
	id := checksum.New([16]byte(page[64:80]), page[3], binary.LittleEndian.Uint64(page[16:]))
	binary.LittleEndian.PutUint32(page[sumOffset:], id.Sum(0, page[:sumOffset]))
}

// sumFrames makes the header checksums of the frames of b right, as far as
// their lengths lead.
func sumFrames(b []byte, id checksum.Identity) {
	for off := int64(HeaderSize); off+frame.HeaderSize <= int64(len(b)); {
		h := b[off : off+frame.HeaderSize]
		binary.LittleEndian.PutUint32(h, id.Sum(off, h[4:]))
		size := 8 * int64(binary.LittleEndian.Uint32(h[8:]))
		if size < frame.HeaderSize {
			return
		}
		off += size
	}
}
