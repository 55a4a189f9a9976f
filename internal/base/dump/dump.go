// Package dump writes annotated dumps of bytes: offsets and hexadecimal bytes
// at the left, what they mean at the right. Golden tests and brock inspect
// show formats with it.
//
//	# segment header
//	00000000  42 52 4b 4a             magic = "BRKJ"
//	00000004  01 00                   format = 1
//	00000006  00 * 4090               zeros
package dump

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

const (
	perLine  = 8  // bytes a line
	minZeros = 16 // a run of zeros from this length is written as one line
)

// Writer dumps the bytes of one buffer from front to back. What it shows may be
// damaged: it marks fields beyond the end, shows bytes that no field covers
// without a name, and keeps the first write error for Close. One goroutine may use
// a Writer.
type Writer struct {
	w    io.Writer
	data []byte
	base int64 // offset of data in its file, added to those that are shown
	next int   // first byte of data that was not shown yet
	err  error // the first error of w
}

// New returns a Writer for data, which lies at offset base of its file. It
// keeps data, and shows offsets in the file; the offsets it takes are into data.
func New(w io.Writer, data []byte, base int64) *Writer {
	return &Writer{w: w, data: data, base: base}
}

// Section starts a part of the dump with a heading.
func (d *Writer) Section(name string) { d.printf("# %s\n", name) }

// Field shows the n bytes at off with their name and their meaning, formatted
// as by fmt.Sprintf. Before it come the bytes between the last field and off. Fields
// may overlap.
func (d *Writer) Field(off, n int, name, format string, args ...any) {
	// No byte is left out: what no field covers is seen, too.
	d.showGap(off)
	comment := name
	if format != "" {
		comment += " = " + fmt.Sprintf(format, args...)
	}
	// Lengths come from the data, and damaged ones may be anything.
	have := min(max(n, 0), len(d.data)-off)
	if off < 0 || off > len(d.data) {
		off, have = len(d.data), 0
	}
	if have < n {
		comment += fmt.Sprintf(" (%d bytes of %d missing)", n-have, n)
	}
	d.showLines(off, have, comment)
	d.next = max(d.next, off+have)
}

// U8 shows the bytes from off on as numbers, one for each name.
func (d *Writer) U8(off int, names ...string) { d.showNumbers(off, 1, names) }

// U16 shows the little-endian numbers of 2 bytes from off on, one for each name.
func (d *Writer) U16(off int, names ...string) { d.showNumbers(off, 2, names) }

// U32 shows the little-endian numbers of 4 bytes from off on, one for each name.
func (d *Writer) U32(off int, names ...string) { d.showNumbers(off, 4, names) }

// U64 shows the little-endian numbers of 8 bytes from off on, one for each name.
func (d *Writer) U64(off int, names ...string) { d.showNumbers(off, 8, names) }

// Bytes shows the n bytes at off as a quoted string.
func (d *Writer) Bytes(off, n int, name string) {
	if off < 0 || n < 0 || off > len(d.data) || n > len(d.data)-off {
		d.Field(off, n, name, "")
		return
	}
	d.Field(off, n, name, "%q", d.data[off:off+n])
}

// Note writes a line of text that belongs to no bytes.
func (d *Writer) Note(format string, args ...any) {
	d.printf("%*s; %s\n", column, "", fmt.Sprintf(format, args...))
}

// Close shows the bytes after the last field and returns the first write error.
func (d *Writer) Close() error {
	d.showGap(len(d.data))
	return d.err
}

// showNumbers shows little-endian numbers of n bytes, one for each name.
func (d *Writer) showNumbers(off, n int, names []string) {
	for _, name := range names {
		if off < 0 || off > len(d.data)-n {
			d.Field(off, n, name, "")
		} else {
			var b [8]byte
			copy(b[:], d.data[off:off+n])
			d.Field(off, n, name, "%d", binary.LittleEndian.Uint64(b[:]))
		}
		off += n
	}
}

// showGap shows the bytes from the last field to off.
func (d *Writer) showGap(off int) {
	if off = min(off, len(d.data)); off > d.next {
		d.showLines(d.next, off-d.next, "")
		d.next = off
	}
}

// showLines shows n bytes at off, the comment on the first line.
func (d *Writer) showLines(off, n int, comment string) {
	if n == 0 {
		d.showLine(off, "", comment)
	}
	for end := off + n; off < end; comment = "" {
		// A page of zeros is one line, so that the rest can be found.
		if z := countZeros(d.data[off:end]); z >= minZeros {
			if comment == "" {
				comment = "zeros"
			}
			d.showLine(off, fmt.Sprintf("00 * %d", z), comment)
			off += z
			continue
		}
		m := min(perLine, end-off)
		for i := 1; i < m; i++ { // let a run of zeros start its own line
			if countZeros(d.data[off+i:end]) >= minZeros {
				m = i
			}
		}
		d.showLine(off, fmt.Sprintf("% x", d.data[off:off+m]), comment)
		off += m
	}
}

const column = len("00000000  ") + perLine*3 // where comments start

// showLine writes one line: offset, bytes, comment.
func (d *Writer) showLine(off int, text, comment string) {
	s := fmt.Sprintf("%08x  %-*s%s", d.base+int64(off), perLine*3, text, comment)
	d.printf("%s\n", strings.TrimRight(s, " "))
}

// printf writes to w until the first error.
func (d *Writer) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

// countZeros returns how many zero bytes p starts with.
func countZeros(p []byte) int { return len(p) - len(bytes.TrimLeft(p, "\x00")) }
