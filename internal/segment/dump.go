package segment

import (
	"github.com/brockdb/brock/internal/dump"
	"github.com/brockdb/brock/internal/frame"
)

// Dump annotates the segment b that d shows. No checksum is checked, and damage
// is shown as what it would mean.
func Dump(d *dump.Writer, b []byte) {
	d.Section("segment header")
	d.Bytes(0, 4, "magic")
	d.U16(4, "version")
	d.U16(6, "flags")
	d.U16(8, "frame header size")
	d.U16(10, "reserved")
	d.U32(12, "recycled")
	d.U64(16, "number")
	d.U64(24, "base version")
	d.U64(32, "first frame")
	d.U32(40, "chain")
	d.U32(44, "reserved")
	d.U64(48, "predecessor")
	d.U64(56, "greatest version before")
	d.Field(64, 16, "uuid", "")
	d.Field(80, sumOffset-80, "reserved", "")
	d.U32(sumOffset, "checksum")
	for off := HeaderSize; off+frame.HeaderSize <= len(b); {
		if k := frame.Kind(b[off+12]); k < frame.Group || k > frame.Seal {
			return
		}
		d.Section("frame")
		off = frame.Dump(d, b, off)
	}
}
