package manifest

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/vlog/frame"
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
		d.U64(off+48, "epoch")
		d.U32(off+56, "reserved", "checksum of the durable frame")
		d.Field(off+64, crypt.TagSize, "its tag", "")
		if s := (Super{Required: binary.LittleEndian.Uint64(b[off+16:])}); s.Encrypted() {
			d.Field(off+slotSecretAt, slotKeyIDAt-slotSecretAt, "encrypted", "")
			dumpKeyID(d, off+slotKeyIDAt)
			d.Field(off+slotTagAt, crypt.TagSize, "tag", "")
		} else {
			d.Field(off+slotSecretAt, 8, "key hash seed", "%#x", binary.LittleEndian.Uint64(b[off+slotSecretAt:]))
			d.U64(off+slotSecretAt+8, "created", "manifest", "durable frame", "session", "session before")
		}
		d.U32(off+slotSumAt, "checksum")
		d.Field(off+slotSumAt+4, slotSize-slotSumAt-4, "reserved", "")
	}
}

func dumpKeyID(d *dump.Writer, off int) {
	d.U8(off, "cipher")
	d.Field(off+1, 7, "reserved", "")
	d.Field(off+8, 16, "data key", "")
	d.Field(off+24, 16, "file key id", "")
}

// DumpManifest annotates the manifest b that d shows. No checksum is checked, and
// damage is shown as what it would mean.
func DumpManifest(d *dump.Writer, b []byte) {
	d.Section("manifest header")
	d.Bytes(0, 8, "magic")
	d.U16(8, "version", "header size")
	d.U32(12, "reserved")
	d.U64(16, "number")
	d.Field(24, 16, "uuid", "")
	d.U64(40, "previous", "its last frame")
	d.U32(56, "checksum of that", "checksum")
	encrypted := len(b) >= fileHeader && binary.LittleEndian.Uint16(b[8:]) == fileEncrypted
	for off := fileHeader; off+frame.HeaderSize <= len(b); {
		off = dumpFrame(d, b, off, encrypted)
	}
}

// dumpFrame returns where the next frame begins.
func dumpFrame(d *dump.Writer, b []byte, off int, encrypted bool) int {
	d.Section("frame")
	end := frame.DumpFrame(d, b, off)
	if n := end - off - frame.HeaderSize; encrypted && n >= frameExtra {
		at := off + frame.HeaderSize
		d.Field(at, crypt.TagSize, "tag of the frame before", "")
		dumpKeyID(d, at+crypt.TagSize)
		d.Field(at+framePrefix, n-frameExtra, "encrypted", "")
		d.Field(end-crypt.TagSize, crypt.TagSize, "tag", "")
		return end
	}
	w := wire{p: b[off+frame.HeaderSize : end]}
	for {
		at := end - len(w.p)
		tag, required, value, more := w.nextTLV()
		if !more {
			break
		}
		name, text := describeField(tag, value)
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

// describeField returns the name that docs/format.md has for the tag, and what the value means.
func describeField(tag uint16, value []byte) (name, text string) {
	for i := range editFields {
		if f := &editFields[i]; f.tag == tag {
			w := wire{p: value}
			text = f.show(&w)
			if err := w.endError(); err != nil {
				text = err.Error()
			}
			return f.name, text
		}
	}
	return "unknown", ""
}
