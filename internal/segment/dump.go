package segment

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/dump"
	"github.com/brockdb/brock/internal/frame"
)

// Dump annotates the segment b that d shows. No checksum is checked, and damage
// is shown as what it would mean.
func Dump(d *dump.Writer, b []byte) {
	d.Section("segment header")
	d.Bytes(0, 4, "magic")
	d.U16(4, "version", "flags", "frame header size", "reserved")
	d.U32(12, "recycled")
	d.U64(16, "number", "base version", "first frame")
	d.U32(40, "chain", "reserved")
	d.U64(48, "predecessor", "greatest version before")
	d.Field(64, 16, "uuid", "")
	d.Field(80, sumOffset-80, "reserved", "")
	d.U32(sumOffset, "checksum")
	for off := HeaderSize; off+frame.HeaderSize <= len(b); {
		if k := frame.Kind(b[off+12]); k != frame.Group && k != frame.Seal {
			return
		}
		d.Section("frame")
		off = frame.Dump(d, b, off)
	}
}

// DumpRemap annotates the remap b that d shows, as Dump does a segment.
func DumpRemap(d *dump.Writer, b []byte) {
	if len(b) < HeaderSize {
		return
	}
	d.Section("remap header")
	d.Bytes(0, 4, "magic")
	d.U16(4, "version", "flags")
	d.U32(8, "checksum of the rest", "reserved")
	d.U64(16, "number", "source", "target", "records", "blocks", "reserved")
	d.Field(64, 16, "uuid", "")
	d.Field(80, sumOffset-80, "reserved", "")
	d.U32(sumOffset, "checksum")
	h := RemapHeader{Records: binary.LittleEndian.Uint64(b[40:]), blocks: binary.LittleEndian.Uint64(b[48:])}
	left := uint64(len(b))
	if h.Records > left || h.blocks > left || h.fileBytes() != int64(left) {
		return
	}
	off := HeaderSize
	d.Section("body")
	d.Field(off, int(h.rankSize()), "ranks", "")
	off += int(h.rankSize())
	d.Field(off, int(h.blocks)*blockBytes, "starts", "")
	off += int(h.blocks) * blockBytes
	for ; off < len(b); off += placeBytes {
		d.Field(off, placeBytes, "place", "offset %d", 8*uint64(binary.LittleEndian.Uint32(b[off:])))
	}
}
