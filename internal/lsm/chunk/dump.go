package chunk

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
)

// Dump shows the chunk at off of a file as its Layout describes it. The bytes
// may be damaged: what cannot be decoded is shown bare. Those of an encrypted file are
// shown as Decrypt leaves them.
func Dump(d *dump.Writer, file []byte, off int, l Layout, encrypted bool) {
	if off < 0 || l.Size() > len(file)-off {
		return
	}
	d.U32(off, "magic \"BRKC\"", "format")
	d.U64(off+8, "file number")
	d.Field(off+16, 16, "uuid", "%x", file[off+16:off+32])
	// Without a File nothing is verified: damage is shown, not refused.
	c := &Chunk{Layout: l, Data: file[off:][:l.Size()]}
	for at := HeaderSize; at < l.End; {
		next, ok := dumpEntry(d, c, off, at)
		if !ok {
			d.Note("not an entry")
			break
		}
		at = next
	}
	if l.Buckets > 0 {
		d.Section("hash index")
	}
	for i := range l.Buckets {
		at := off + l.IndexStart() + i*bucketSize
		bucket := (*[bucketSize]byte)(file[at:])
		// Empty slots are left out: a fifth of the index, of which there is nothing to say.
		for s := range bucketSlots {
			if w := binary.LittleEndian.Uint32(bucket[4*s:]); w != 0 {
				d.Field(at+4*s, 4, fmt.Sprintf("bucket %d", i), "fingerprint %#x, entry at %d", w>>17, off+int(w&(1<<17-1))<<3)
			}
		}
	}
	dumpTrailer(d, file, off+l.TrailerStart(), &l, encrypted)
}

func dumpEntry(d *dump.Writer, c *Chunk, base, off int) (next int, ok bool) {
	var e entry.Entry
	_, start, end, next, err := c.decodeEntry(off, &e, nil)
	if err != nil {
		return 0, false
	}
	start, end = off+start, off+end
	w := binary.LittleEndian.Uint64(c.Data[off:])
	// The bits as they are in the file: of an entry that is decoded, the form is no longer known.
	form := ""
	for _, f := range []struct {
		bit  uint64
		name string
	}{{flagSep, " separated"}, {flagExt, " extended"}, {flagWide, " wide"}, {flagOlder, " older"}} {
		if w&f.bit != 0 {
			form += f.name
		}
	}
	d.Field(base+off, headSize, "entry", "kind %d%s, suffix of %d, version %d", e.Kind, form, end-start, e.Version)
	at := base + off + headSize
	switch {
	case w&flagWide != 0:
		d.U64(at, "  version", "  expiry", "  meta")
		if e.Separated {
			d.Field(at+24, 24, "  handle", "%+v", e.Handle)
		} else {
			d.U64(at+24, "  value length")
		}
	default:
		if w&flagExt != 0 {
			d.Field(at, extSize, "  meta and expiry", "%d, %d", e.Meta, e.Expires)
			at += extSize
		}
		if e.Separated {
			d.Field(at, handSize, "  handle", "%+v", e.Handle)
		}
	}
	d.Field(base+start, end-start, "  suffix", "%.40q", c.Data[start:end])
	if len(e.Value) > 0 {
		d.Field(base+end, len(e.Value), "  value", "%d bytes", len(e.Value))
	}
	if e.Raw != 0 {
		d.Field(base+end, rawSize, "  length", "%d bytes before compression", e.Raw)
	}
	return next, true
}

var sectionNames = map[uint16]string{secPrefix: "prefix", secFence: "fences", secChecksums: "page checksums", secTags: "page tags", secIndex: "index", secStat: "statistics"}

func dumpTrailer(d *dump.Writer, file []byte, at int, l *Layout, encrypted bool) {
	d.Section("trailer")
	// By the directory: the length in the trailer itself may be damaged.
	end, sumSize := at+l.TrailerSize, 4
	if encrypted {
		sumSize = crypt.TagSize
		d.Field(at, crypt.TagSize, "tag", "%x", file[at:at+crypt.TagSize])
		at += crypt.TagSize
	}
	d.U32(at, "checksum", "length")
	d.U64(at+8, "end of entries")
	// All numbers may be damaged: a section is split into its parts only if it is long enough.
	_ = Sections(file[at+16:end], func(tag uint16, off int, p []byte) (bool, error) {
		pos := at + 16 + off
		d.Field(pos-sectionHead, sectionHead, sectionNames[tag], "section %d, %d bytes", tag, len(p))
		switch {
		case tag == secPrefix:
			d.Bytes(pos, len(p), "  prefix")
		case tag == secFence && len(p) >= 8:
			d.U32(pos, "  shift", "  fences")
			p, pos = p[8:], pos+8
			n := len(p) / 12
			for i := range n {
				d.Field(pos+8*i, 8, "  key word", "%016x", binary.LittleEndian.Uint64(p[8*i:]))
			}
			for i := range n {
				d.Field(pos+8*n+4*i, 4, "  first entry", "%d", int(binary.LittleEndian.Uint32(p[8*n+4*i:]))<<3)
			}
		case tag == secChecksums || tag == secTags:
			for i := range len(p) / sumSize {
				d.Field(pos+sumSize*i, sumSize, "  page", "%d", i)
			}
		case tag == secIndex:
			d.U32(pos, "  kind", "  buckets")
		case tag == secStat && len(p) >= 16+StatsSize:
			d.U64(pos, "  version base", "  segment base")
			DumpStats(d, pos+16)
		}
		return true, nil
	})
}

// DumpStats shows the encoded Stats at off.
func DumpStats(d *dump.Writer, off int) {
	d.U64(off, "  entries", "  keys", "  deletes", "  key bytes", "  value bytes", "  separated bytes",
		"  least version", "  greatest version", "  least expiry")
}
