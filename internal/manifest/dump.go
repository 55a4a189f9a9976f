package manifest

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/dump"
	"github.com/brockdb/brock/internal/frame"
)

// DumpSuper annotates the SUPER file b that d shows. No checksum is checked.
func DumpSuper(d *dump.Writer, b []byte) {
	for off := 0; off+slotSize <= len(b); off += slotSize {
		d.Section(fmt.Sprintf("slot %d", off/slotSize))
		d.Bytes(off, 8, "magic")
		d.U16(off+8, "format major", "format minor")
		d.U32(off+12, "reserved")
		d.Field(off+16, 8, "required features", "%#x", binary.LittleEndian.Uint64(b[off+16:]))
		d.Field(off+24, 8, "optional features", "%#x", binary.LittleEndian.Uint64(b[off+24:]))
		d.Field(off+32, 16, "uuid", "")
		d.Field(off+48, 8, "key hash seed", "%#x", binary.LittleEndian.Uint64(b[off+48:]))
		d.U64(off+56, "created", "manifest", "epoch", "durable frame", "session", "session before")
		d.Field(off+104, slotSumAt-104, "reserved", "")
		d.U32(off+slotSumAt, "checksum")
		d.Field(off+slotSumAt+4, slotSize-slotSumAt-4, "reserved", "")
	}
}

// Dump annotates the manifest b that d shows. No checksum is checked, and
// damage is shown as what it would mean.
func Dump(d *dump.Writer, b []byte) {
	d.Section("manifest header")
	d.Bytes(0, 8, "magic")
	d.U16(8, "version", "header size")
	d.U32(12, "reserved")
	d.U64(16, "number")
	d.Field(24, 16, "uuid", "")
	d.U64(40, "previous")
	d.Field(48, fileSumAt-48, "reserved", "")
	d.U32(fileSumAt, "checksum")
	for off := fileHeader; off+frame.HeaderSize <= len(b); {
		off = dumpFrame(d, b, off)
	}
}

// dumpFrame returns where the next frame begins.
func dumpFrame(d *dump.Writer, b []byte, off int) int {
	d.Section("frame")
	end := frame.Dump(d, b, off)
	w := wire{p: b[off+frame.HeaderSize : end]}
	for {
		at := end - len(w.p)
		tag, required, value, more := w.tlv()
		if !more {
			break
		}
		name, text := describe(tag, value)
		d.Field(at, tlvHeader, "field", "%d %s, required %v, %d bytes", tag, name, required, len(value))
		if len(value) > 0 {
			d.Field(at+tlvHeader, len(value), name, "%s", text)
		}
	}
	if len(w.p) > 0 {
		d.Field(end-len(w.p), len(w.p), "padding", "")
	}
	return end
}

// describe returns the name that docs/format.md has for the tag, and what the value means.
func describe(tag uint16, value []byte) (name, text string) {
	for i := range editFields {
		if f := &editFields[i]; f.tag == tag {
			w := wire{p: value}
			text = f.show(&w)
			if err := w.end(); err != nil {
				text = err.Error()
			}
			return f.name, text
		}
	}
	return "unknown", ""
}
