package frame

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
)

// DumpFrame annotates the frame at off of the bytes b that d shows, and returns where
// it ends. The payload of a Snapshot or an Edit is left to the caller. No
// checksum is checked, and a frame that is cut off is shown as far as it goes.
func DumpFrame(d *dump.Writer, b []byte, off int) (end int) {
	d.U32(off, "header checksum", "payload checksum", "length in units of 8")
	kind := Kind(0)
	size := HeaderSize
	if off+HeaderSize <= len(b) {
		kind = Kind(b[off+12])
		size = 8 * int(binary.LittleEndian.Uint32(b[off+8:]))
	}
	d.Field(off+12, 1, "kind", "%v", kind)
	d.U8(off+13, "flags")
	d.U16(off+14, "transactions")
	d.U32(off+16, "records", "chain")
	d.U64(off+24, "first version", "number")
	d.U32(off+40, "unsynced", "skipped")
	end = min(max(off+size, off+HeaderSize), len(b))
	// Where the next frame begins is known even if this one's payload makes no sense.
	if off+HeaderSize <= len(b) && b[off+13]&flagEncrypted != 0 && (kind == Group || kind == Seal) {
		dumpEncrypted(d, b, off+HeaderSize, end)
		return end
	}
	if kind == Seal {
		for i, name := range []string{"records", "own bytes", "small bytes", "lowest version", "greatest version"} {
			d.U64(off+HeaderSize+8*i, name)
		}
		return end
	}
	if kind != Group {
		return end
	}
	for pos := off + HeaderSize; pos < end; {
		size := dumpRecord(d, b[pos:end], pos)
		if size == 0 {
			break
		}
		pos += size
	}
	return end
}

// dumpEncrypted shows what an encrypted frame says without its key; its header is before
// from.
func dumpEncrypted(d *dump.Writer, b []byte, from, end int) {
	at := end - endSize
	if at < from {
		return
	}
	rest := 8 * int64(binary.LittleEndian.Uint32(b[at+crypt.TagSize:]))
	tags := int64(at) - blockCount(rest)*crypt.TagSize
	for from < end {
		c, ok := entry.ParseClear(b[from:end])
		if !ok || int64(from)+c.Size > tags-rest {
			break
		}
		d.Field(from, 8, "record", "%d bytes, of which %d before pieces, attempt %d", c.Size, c.Head, c.Attempt)
		d.Field(from+8, c.Head-8-crypt.TagSize, "encrypted", "")
		d.Field(from+c.Head-crypt.TagSize, crypt.TagSize, "tag", "")
		if n := int(c.Size) - c.Head; n > 0 {
			d.Field(from+c.Head, n, "pieces", "")
		}
		from += int(c.Size)
	}
	if tags-rest >= int64(from) {
		d.Field(int(tags-rest), int(rest), "rest", "")
		d.Field(int(tags), at-int(tags), "tags of the rest", "")
	}
	d.Field(at, crypt.TagSize, "tag of the frame before", "")
	d.U32(at+crypt.TagSize, "length of the rest in units of 8", "attempt")
}

// dumpRecord shows the record that rec begins with, at pos. Record has the parts, not where they
// lie: they end with key, piece table, value and zeros.
func dumpRecord(d *dump.Writer, rec []byte, pos int) (size int) {
	r, err := entry.DecodeRecord(rec)
	if err != nil {
		d.Note("%v", err)
		return 0
	}
	end := pos + r.UnpaddedSize()
	value := end - len(r.Value)
	table := pos + r.KeyEnd()
	key := table - len(r.Key)
	if r.Own {
		d.Field(pos, 1, "record kind", "%d", r.Kind)
		d.U8(pos+1, "meta")
		d.U16(pos+2, "key length")
		d.U32(pos+4, "value length", "value checksum", "head checksum")
		d.Field(pos+16, 8, "word", "version %d, codec %v, length before it %d, own checksum %v, expires %d", r.Version, r.Codec, r.Raw, r.Own, r.Expires)
		if n := key - pos - entry.HeaderSize; n > 0 {
			d.Field(pos+entry.HeaderSize, n, "extension", "")
		}
	} else {
		d.Field(pos, key-pos, "short record", "kind %d, meta %d, expires %d, given version %d, key of %d bytes, value of %d", r.Kind, r.Meta, r.Expires, r.Version, len(r.Key), len(r.Value))
	}
	d.Bytes(key, len(r.Key), "key")
	if value > table {
		d.Field(table, value-table, "piece checksums", "")
	}
	if len(r.Value) > 0 {
		d.Bytes(value, len(r.Value), "value")
	}
	if n := r.Size - r.UnpaddedSize(); n > 0 {
		d.Field(end, n, "padding", "")
	}
	return r.Size
}
