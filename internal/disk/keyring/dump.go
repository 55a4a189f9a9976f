package keyring

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/dump"
)

// Dump annotates the keyring file b that d shows. No checksum is checked, and damage is
// shown as what it would mean. What is wrapped is no secret without the master key.
func Dump(d *dump.Writer, b []byte) {
	for i, off := range []int{0, len(b) / 2} {
		d.Section(fmt.Sprintf("copy %d", i))
		dumpCopy(d, b, off)
	}
}

func dumpCopy(d *dump.Writer, b []byte, off int) {
	d.Bytes(off, 8, "magic")
	d.U16(off+8, "version", "reserved")
	d.U32(off+12, "length")
	d.Field(off+16, 16, "uuid", "")
	d.U64(off+32, "number")
	d.U32(off+40, "data keys", "checksum")
	if off+headerSize > len(b) {
		return
	}
	n := min(binary.LittleEndian.Uint32(b[off+40:]), maxKeys)
	off += headerSize
	for i := uint32(0); i < n && off+keyHeader <= len(b); i++ {
		size := int(min(binary.LittleEndian.Uint32(b[off+20:]), maxWrapped))
		d.Field(off, 16, "id", "")
		d.Field(off+16, 1, "cipher", "%d", b[off+16])
		d.Field(off+17, 3, "reserved", "")
		d.U32(off+20, "length of what is wrapped")
		d.U64(off+24, "created")
		d.Field(off+32, 16, "check", "")
		d.Field(off+keyHeader, size, "wrapped", "")
		off += keyHeader + (size+7)&^7
	}
}
