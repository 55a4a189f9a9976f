package segment

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// DumpSegment annotates the segment b that d shows. No checksum is checked, and damage
// is shown as what it would mean.
func DumpSegment(d *dump.Writer, b []byte) {
	d.Section("segment header")
	d.Bytes(0, 4, "magic")
	d.U16(4, "version", "flags", "frame header size", "reserved")
	d.U32(12, "reserved")
	d.U64(16, "number", "reserved", "first frame")
	d.U32(40, "chain", "reserved")
	d.U64(48, "predecessor", "greatest version before")
	dumpPageEnd(d, b)
	for off := HeaderSize; off+frame.HeaderSize <= len(b); {
		if k := frame.Kind(b[off+12]); k != frame.Group && k != frame.Seal {
			return
		}
		d.Section("frame")
		off = frame.DumpFrame(d, b, off)
	}
}

// dumpPageEnd shows the header page b from the uuid on.
func dumpPageEnd(d *dump.Writer, b []byte) {
	d.Field(64, 16, "uuid", "")
	at := 80
	if len(b) >= HeaderSize && b[6]&flagEncrypted != 0 {
		d.Field(at, 48, "reserved", "")
		d.Bytes(128, 4, "magic")
		d.U8(132, "cipher")
		d.Field(133, 3, "reserved", "")
		d.Field(136, 16, "data key", "")
		d.Field(152, 16, "file key id", "")
		d.Field(168, 16, "tag of the frame before", "")
		d.Field(184, 8, "reserved", "")
		d.Field(192, 16, "tag", "")
		at = 208
	}
	d.Field(at, sumOffset-at, "reserved", "")
	d.U32(sumOffset, "checksum")
}

// DumpForwarding annotates the forwarding table b that d shows, as Dump does a segment.
func DumpForwarding(d *dump.Writer, b []byte) {
	if len(b) < HeaderSize {
		return
	}
	d.Section("forwarding table header")
	d.Bytes(0, 4, "magic")
	d.U16(4, "version", "flags")
	d.U32(8, "checksum of the rest", "reserved")
	d.U64(16, "number", "source", "target", "records", "blocks", "reserved")
	dumpPageEnd(d, b)
	h := ForwardingHeader{Records: binary.LittleEndian.Uint64(b[40:]), blocks: binary.LittleEndian.Uint64(b[48:])}
	h.KeyID, _ = crypt.PageKeyID(b)
	left := uint64(len(b))
	if h.Records > left || h.blocks > left || h.fileBytes() != int64(left) {
		return
	}
	off := HeaderSize
	if !h.KeyID.IsZero() {
		d.Section("body, encrypted")
		d.Field(HeaderSize, int(h.bodySize()), "pages", "")
		for off = HeaderSize + int(h.bodySize()); off < len(b); off += crypt.TagSize {
			d.Field(off, crypt.TagSize, "tag", "")
		}
		return
	}
	d.Section("body")
	d.Field(off, int(h.rankSize()), "ranks", "")
	off += int(h.rankSize())
	d.Field(off, int(h.blocks)*blockBytes, "starts", "")
	off += int(h.blocks) * blockBytes
	for ; off < len(b); off += placeBytes {
		d.Field(off, placeBytes, "place", "offset %d", 8*uint64(binary.LittleEndian.Uint32(b[off:])))
	}
}
