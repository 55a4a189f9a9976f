package manifest

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/dump"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/layout"
)

// DumpSuper annotates the SUPER file b that d shows. No checksum is checked.
func DumpSuper(d *dump.Writer, b []byte) {
	for off := 0; off+slotSize <= len(b); off += slotSize {
		d.Section(fmt.Sprintf("slot %d", off/slotSize))
		d.Bytes(off, 8, "magic")
		d.U16(off+8, "format major")
		d.U16(off+10, "format minor")
		d.U32(off+12, "reserved")
		d.Field(off+16, 8, "required features", "%#x", binary.LittleEndian.Uint64(b[off+16:]))
		d.Field(off+24, 8, "optional features", "%#x", binary.LittleEndian.Uint64(b[off+24:]))
		d.Field(off+32, 16, "uuid", "")
		d.Field(off+48, 8, "key hash seed", "%#x", binary.LittleEndian.Uint64(b[off+48:]))
		d.U64(off+56, "created")
		d.U64(off+64, "manifest")
		d.U64(off+72, "epoch")
		d.U64(off+80, "durable frame")
		d.Field(off+88, slotSumAt-88, "reserved", "")
		d.U32(off+slotSumAt, "checksum")
		d.Field(off+slotSumAt+4, slotSize-slotSumAt-4, "reserved", "")
	}
}

// Dump annotates the manifest b that d shows. No checksum is checked, and
// damage is shown as what it would mean.
func Dump(d *dump.Writer, b []byte) {
	d.Section("manifest header")
	d.Bytes(0, 8, "magic")
	d.U16(8, "version")
	d.U16(10, "header size")
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
		d.Field(at, tlvHeader, "field", "%d %s, required %v, %d bytes", tag, tagName(tag), required, len(value))
		if len(value) > 0 {
			d.Field(at+tlvHeader, len(value), tagName(tag), "%s", describe(tag, value))
		}
	}
	if len(w.p) > 0 {
		d.Field(end-len(w.p), len(w.p), "padding", "")
	}
	return end
}

// tagName is the name that docs/format.md has for the tag.
func tagName(tag uint16) string {
	for i := range editFields {
		if editFields[i].tag == tag {
			return editFields[i].name
		}
	}
	return "unknown"
}

func describe(tag uint16, value []byte) string {
	var e layout.Edit
	if err := editFields.readOne(&e, &e.Unknown, tag, false, value); err != nil {
		return err.Error()
	}
	switch {
	case len(e.AddSegments) > 0:
		s := e.AddSegments[0]
		return fmt.Sprintf("%d %v, file of %d bytes, %d records, values of %d bytes", s.Num, s.Kind, s.FileBytes, s.Records, s.Bytes)
	case len(e.DropRuns) > 0:
		return fmt.Sprint(e.DropRuns[0])
	case len(e.AddRuns) > 0:
		r := e.AddRuns[0]
		return fmt.Sprintf("%d %v order %d, %d entries, %d tombstones, versions %d to %d, files %v, refs %v", r.ID, r.Tier, r.Order, r.Entries, r.Tombstones, r.MinVersion, r.MaxVersion, r.Files, r.Refs)
	case len(e.Dead) > 0:
		return fmt.Sprintf("%d records of segment %d, values of %d bytes", len(e.Dead[0].Granules), e.Dead[0].Segment, e.Dead[0].Bytes)
	case len(e.States) > 0:
		return fmt.Sprintf("%+v", e.States[0])
	case len(e.DropSegments) > 0:
		return fmt.Sprint(e.DropSegments[0])
	case len(e.JournalEnds) > 0:
		return fmt.Sprintf("%+v", e.JournalEnds[0])
	case len(e.Clock) > 0:
		return fmt.Sprintf("%+v", e.Clock[0])
	case len(e.SetKeyspaces) > 0:
		k := e.SetKeyspaces[0]
		return fmt.Sprintf("%d %q, %+v", k.ID, k.Name, k.Options)
	case len(e.DropKeyspaces) > 0:
		return fmt.Sprint(e.DropKeyspaces[0])
	case len(e.KeyspaceFloors) > 0:
		return fmt.Sprintf("%+v", e.KeyspaceFloors[0])
	case len(e.Unknown) > 0 || e.CleanClose:
		return ""
	}
	return fmt.Sprint(uint64(e.FlushedTo) | uint64(e.LastVersion) | uint64(e.Floor) | uint64(e.NextFile) | e.NextKeyspace)
}
