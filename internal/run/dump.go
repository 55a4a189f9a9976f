package run

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/dump"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/run/chunk"
)

// Dump writes an annotated dump of a whole run file. Damage is shown, not
// refused, as far as footer and directory still lead to what there is.
func Dump(w io.Writer, file []byte) error {
	// The footer is at the end and leads to the directory, which leads to the rest.
	d := dump.New(w, file, 0)
	at := len(file) - footerSize
	if at < 0 {
		return d.Close()
	}
	dirOffset := binary.LittleEndian.Uint64(file[at+16:])
	id := checksum.New([16]byte(file[at+40:]), byte(filename.Run), binary.LittleEndian.Uint64(file[at+56:]))
	ft, err := decodeFooter(file[at:], id, int64(at), "the file")
	if err != nil {
		d.Note("%v", err)
	} else {
		dumpContents(d, file, ft, id)
	}
	d.Section("footer")
	d.U32(at, "checksum", "magic \"BRKR\"")
	d.U16(at+8, "format", "required features")
	d.U32(at+12, "reserved")
	d.Field(at+16, 8, "directory at", "%d", dirOffset)
	d.U64(at+24, "directory length")
	d.U32(at+32, "directory checksum", "reserved")
	d.Field(at+40, 16, "uuid", "%x", file[at+40:at+56])
	d.U64(at+56, "file number")
	return d.Close()
}

func dumpContents(d *dump.Writer, file []byte, ft *footer, id checksum.Identity) {
	b := file[ft.dirOffset:][:ft.dirSize]
	if id.Sum(int64(ft.dirOffset), b) != ft.dirSum {
		d.Note("the directory's checksum is wrong")
	}
	dir, err := decodeDirectory(b, ft.dirOffset)
	if err != nil {
		d.Note("directory: %v", err)
		return
	}
	// Chunks and the filters between them are shown as they lie in the file.
	filters := append(dir.parts[:len(dir.parts):len(dir.parts)], dir.filter)
	for i := range dir.chunks {
		r := &dir.chunks[i]
		for len(filters) > 1 && filters[0].offset < r.offset {
			dumpFilter(d, &filters[0])
			filters = filters[1:]
		}
		name := "chunk"
		if isTombstones(r.key) {
			name = "chunk of range tombstones"
		}
		d.Section(fmt.Sprintf("%s %d: %v", name, i, r.Stats))
		chunk.Dump(d, file, int(r.offset), r.Layout)
	}
	for i := range filters {
		dumpFilter(d, &filters[i])
	}
	d.Section("directory")
	_ = chunk.Sections(b, func(tag uint16, off int, p []byte) (bool, error) {
		dumpSection(d, dir, tag, int(ft.dirOffset)+off, p)
		return true, nil
	})
}

var sectionNames = map[uint16]string{secChunks: "chunks", secBounds: "bounds", secFilter: "filter", secRanges: "range tombstones",
	secFilters: "filters", secAbout: "about the store"}

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
	case secFilter:
		d.U32(at, "  kind", "  checksum")
		d.U64(at+8, "  offset", "  words")
	case secRanges:
		d.U64(at, "  flat spans", "  tombstones in nodes")
	case secFilters:
		d.U32(at, "  kind", "  number")
		for i := range dir.parts {
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
	if f.words > 0 {
		d.Section("filter")
	}
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
