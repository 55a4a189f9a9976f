package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/chunk"
)

// StoreOf returns the uuid of the store that an encrypted run file belongs to. ok is false for a
// plain file, and for one with a damaged footer.
func StoreOf(file []byte) (uuid [16]byte, ok bool) {
	ft, err := footerOf(file, encryptedFooterSize)
	if err != nil {
		return uuid, false
	}
	return ft.Owner.UUID, true
}

// footerOf decodes the footer of size bytes at the end of a file, whatever file it names.
func footerOf(file []byte, size int) (*footer, error) {
	at := len(file) - size
	if at < 0 {
		return nil, errors.New("no footer")
	}
	return decodeFooter(file[at:], nil, int64(at), "the file")
}

// Dump writes an annotated dump of a whole run file. Damage is shown, not refused, as far as
// footer and directory still lead to what there is. An encrypted file is shown decrypted. If
// ring is nil or doesn't have its data key, only header and footer are shown; in the latter case
// Dump also returns an error that wraps errs.ErrKey.
func Dump(w io.Writer, file []byte, ring *crypt.Ring) error {
	// The header is shown before anything else, so there must be room for one.
	if ft, err := footerOf(file, encryptedFooterSize); err == nil && ft.DirOffset >= headerSize {
		return dumpEncrypted(w, file, ft, ring)
	}
	// The footer is at the end and leads to the directory, which leads to the rest.
	d := dump.New(w, file, 0)
	ft, err := footerOf(file, footerSize)
	if err != nil {
		d.Note("%v", err)
	} else {
		b := file[ft.DirOffset:][:ft.DirSize]
		if ft.Owner.ID().Sum(int64(ft.DirOffset), b) != ft.DirSum {
			d.Note("the directory's checksum is wrong")
		}
		dumpContents(d, file, ft, b, false)
	}
	if at := len(file) - footerSize; at >= 0 {
		dumpFooter(d, file, at)
	}
	return d.Close()
}

func dumpFooter(d *dump.Writer, file []byte, at int) {
	d.Section("footer")
	d.U32(at, "checksum", "magic \"BRKR\"")
	d.U16(at+8, "format", "required features")
	d.U32(at+12, "reserved")
	d.Field(at+16, 8, "directory at", "%d", binary.LittleEndian.Uint64(file[at+16:]))
	d.U64(at+24, "directory length")
	d.U32(at+32, "directory checksum", "reserved")
	d.Field(at+40, 16, "uuid", "%x", file[at+40:at+56])
	d.U64(at+56, "file number")
}

// dumpContents shows the chunks, the filters and the directory b.
func dumpContents(d *dump.Writer, file []byte, ft *footer, b []byte, encrypted bool) {
	dir, err := decodeDirectory(b, ft.DirOffset, encrypted)
	if err != nil {
		d.Note("directory: %v", err)
		return
	}
	// Chunks and the filters between them are shown as they lie in the file.
	filters := dir.filters
	for i := range dir.chunks {
		r := &dir.chunks[i]
		for len(filters) > 0 && filters[0].offset < uint64(r.Offset) {
			dumpFilter(d, &filters[0])
			filters = filters[1:]
		}
		// Their entries look like any others: only the keys, which begin with a tag, tell.
		name := "chunk"
		if isRangeDeletes(r.key) {
			name = "chunk of range deletes"
		}
		d.Section(fmt.Sprintf("%s %d: %v", name, i, r.Stats))
		chunk.Dump(d, file, int(r.Offset), r.Layout, encrypted)
	}
	for i := range filters {
		dumpFilter(d, &filters[i])
	}
	d.Section("directory")
	// No section stops the walk, not even one that is required and unknown: a dump shows it.
	_ = chunk.Sections(b, func(tag uint16, off int, p []byte) (bool, error) {
		dumpSection(d, dir, tag, int(ft.DirOffset)+off, p)
		return true, nil
	})
}

var sectionNames = map[uint16]string{secChunks: "chunks", secBounds: "bounds", secRanges: "range deletes",
	secFilters: "filters", secAbout: "about the store", secTags: "page tags of filters"}

// dumpSection shows one section of a directory; its payload p lies at offset at.
func dumpSection(d *dump.Writer, dir *directory, tag uint16, at int, p []byte) {
	name, known := sectionNames[tag]
	if !known {
		d.Field(at-8, 8, "section", "%d, %d bytes", tag, len(p))
		return
	}
	d.Field(at-8, 8, name, "section %d, %d bytes", tag, len(p))
	switch tag {
	case secChunks:
		for i := range dir.chunks {
			dumpRecord(d, at+i*recordSize)
		}
	case secBounds:
		dumpBounds(d, dir, at)
	case secRanges:
		d.U64(at, "  flat spans", "  range deletes in forests", "  forests")
	case secFilters:
		d.U32(at, "  kind", "  number")
		for i := range dir.filters {
			part := at + 8 + i*filterRecordSize
			d.U32(part, "  chunks", "  checksum")
			d.U64(part+8, "  offset", "  words")
		}
	}
}

func dumpBounds(d *dump.Writer, dir *directory, at int) {
	key := at + boundHead*len(dir.chunks)
	for i := range dir.chunks {
		d.U16(at+boundHead*i, "  length", "  bytes that tell it apart, and flags")
	}
	for i := range dir.chunks {
		d.Bytes(key, len(dir.chunks[i].key), "  first key")
		key += len(dir.chunks[i].key)
	}
}

func dumpFilter(d *dump.Writer, f *filterRecord) {
	d.Section("filter")
	for i := range int(f.words) {
		d.Field(int(f.offset)+8*i, 8, "word", "%d", i)
	}
}

func dumpRecord(d *dump.Writer, at int) {
	d.U64(at, "  offset", "  end of entries")
	d.U32(at+16, "  buckets", "  trailer length", "  prefix length", "  trailer checksum")
	d.U64(at+32, "  version base", "  segment base")
	chunk.DumpStats(d, at+48)
}

func dumpEncrypted(w io.Writer, file []byte, ft *footer, ring *crypt.Ring) error {
	cfg := OpenConfig{UUID: ft.Owner.UUID, Ring: ring}
	o, err := cfg.newOrigin(ft.Owner.Num, ft.keyID())
	if err == nil {
		// A copy: the caller keeps the bytes of the file. Decryption in place needs Room behind.
		file = append(make([]byte, 0, len(file)+chunk.Room), file...)
		err = o.decryptImage(file, ft)
	}
	d := dump.New(w, file, 0)
	d.Section("header")
	d.Field(0, 4, "magic", "%q", file[:4])
	d.U16(4, "version", "flags")
	d.U64(headerNumber, "file number")
	d.Field(headerUUID, 16, "uuid", "%x", file[headerUUID:][:16])
	d.Bytes(128, 80, "cipher, data key, file key id, tag")
	d.U32(headerSum, "checksum")
	if err == nil {
		dumpContents(d, file, ft, file[ft.DirOffset:][:ft.DirSize], true)
	} else {
		d.Note("the rest can't be decrypted: %v", err)
	}
	at := len(file) - encryptedFooterSize
	dumpFooter(d, file, at)
	d.Bytes(at+footerDirTag, crypt.TagSize, "tag of the directory")
	d.Bytes(at+footerTag, crypt.TagSize, "tag of the footer")
	d.Bytes(at+footerKey, 16, "data key")
	d.Bytes(at+footerKeyID, 16, "file key id")
	if !errors.Is(err, errs.ErrKey) {
		err = nil // damage is shown
	}
	return errors.Join(d.Close(), err)
}

// decryptImage decrypts a whole file in place. Damaged parts stay as they are. It returns an
// error only if the directory is damaged.
func (o *origin) decryptImage(file []byte, ft *footer) error {
	b := file[ft.DirOffset:][:ft.DirSize]
	if err := o.verifyDirectory(b, ft); err != nil {
		return err
	}
	d, err := decodeDirectory(b, ft.DirOffset, true)
	if err != nil {
		return err
	}
	o.Read = func(p []byte, off int64) error { copy(p, file[off:]); return nil }
	for i := range d.chunks {
		r := &d.chunks[i]
		r.File, r.Data = &o.Paged, file[r.Offset:][:r.Layout.Size()]
		r.Decrypt()
	}
	for i := range d.filters {
		f := d.filters[i].newPart(&o.Paged)
		// All decrypts into memory of its own: a filter with a damaged page stays as it is.
		if b, err := f.ReadAll(); err == nil {
			copy(file[d.filters[i].offset:], b)
		}
	}
	return nil
}
