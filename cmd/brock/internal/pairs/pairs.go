// Package pairs reads and writes pairs of keys and values in files: JSON lines,
// CSV, TSV, and directories, whose paths are the keys and contents the values.
// What a Writer writes, a Reader of the same format reads back exactly.
package pairs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/brockdb/brock"
)

// Pair is a key and its value, with their attributes; or, if Section is set, no pair
// but the begin of a section.
type Pair struct {
	Key, Value []byte
	Meta       byte
	Expires    time.Time // zero = never
	Section    *Section

	Keyspace *string // where the line names one; nil = that of the section
	Version  uint64  // of the commit that wrote the pair; 0 = not known

	// Of a history, in which each version of a key is a pair of its own.
	Deleted    bool // the version is a delete: it has no value
	OnlyLatest bool // versions before it need not be kept
}

// KeyOf copies what an item says without its value.
func KeyOf(item *brock.Item) Pair {
	return Pair{Key: item.KeyCopy(nil), Meta: item.Meta(), Expires: item.ExpiresAt()}
}

// Of copies an item.
func Of(item *brock.Item) (Pair, error) {
	p := KeyOf(item)
	var err error
	p.Value, err = item.ValueCopy(nil)
	return p, err
}

// Entry returns the pair as an entry to set.
func (p *Pair) Entry() *brock.Entry {
	e := brock.NewEntry(p.Key, p.Value).WithMeta(p.Meta).WithExpiry(p.Expires)
	e.OnlyLatest = p.OnlyLatest
	return e
}

// Format is a way to write pairs in a file.
type Format string

// The formats.
const (
	JSONL Format = "jsonl" // {"key":"a","value":"b"}; keyB64 and valueB64 for what is not UTF-8
	CSV   Format = "csv"   // key,value,attributes
	TSV   Format = "tsv"   // the same with tabs and without quotes
)

// Form is how a file is read.
type Form struct {
	Format Format
	Key    string // the field of an object, or the column of a table, whose text is the key; the object, or the row as an object, is the value; "" = the file has pairs
	Header bool   // the first line of a table names its columns, whatever they are called
}

// FormatOf returns the format that a file's name says.
func FormatOf(path string) (Format, bool) {
	switch f := Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")); f {
	case JSONL, CSV, TSV:
		return f, true
	}
	return "", false
}

// Reader reads the pairs of one file.
type Reader interface {
	// Next returns the next pair, which is the caller's, or io.EOF. A
	// *SyntaxError says which line is not a pair.
	Next() (Pair, error)
	// Span is where the bytes of the last pair lie.
	Span() Span
}

// Span is a part of a file: one pair.
type Span struct {
	Offset, Size int64
	Line         int // where it begins, counted from 1
}

// NewReader returns a Reader of r; name is for messages. It takes 1 MB of memory.
func NewReader(f Form, r io.Reader, name string) Reader {
	b := bufio.NewReaderSize(r, 1<<20)
	return newReader(f, b, skipMark(b), name)
}

// newReader returns a Reader of b, which stands at an offset of the file.
func newReader(f Form, b *bufio.Reader, at int64, name string) Reader {
	switch f.Format {
	case CSV:
		return newTable(newCommas(b, at, name), f, name)
	case TSV:
		return newTable(newTabs(b, at, name), f, name)
	}
	return &jsonReader{lines: newLines(b, at, name), key: f.Key}
}

// byteOrderMark is what some editors put before the text of a file.
var byteOrderMark = []byte("\uFEFF")

// skipMark passes the byte order mark, if there is one. It returns its length.
func skipMark(b *bufio.Reader) int64 {
	if head, err := b.Peek(len(byteOrderMark)); err != nil || !bytes.Equal(head, byteOrderMark) {
		return 0
	}
	n, _ := b.Discard(len(byteOrderMark)) // it is in the buffer
	return int64(n)
}

// Writer writes pairs; one with a nil value is, in JSON, a key alone. Flush ends it.
type Writer interface {
	Write(p Pair) error
	Flush() error
}

// SectionWriter is a Writer of a format that has sections.
type SectionWriter interface {
	Writer
	// Begin says in which keyspace the pairs after it are.
	Begin(s Section) error
}

// NewWriter returns a Writer to w.
func NewWriter(f Format, w io.Writer) Writer {
	switch f {
	case CSV:
		return newCommaWriter(w)
	case TSV:
		return &tabWriter{w: bufio.NewWriter(w)}
	}
	return newJSONWriter(w)
}

// ErrInput says that a source is not what was expected: change the source, and try again.
var ErrInput = errors.New("input refused")

// SyntaxError says which line of a file is not a pair, and why. errors.Is reports
// ErrInput.
type SyntaxError struct {
	File   string
	Line   int // 0 = the file as a whole
	Reason string
}

// Error names file, line and reason.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Is reports whether target is ErrInput.
func (e *SyntaxError) Is(target error) bool { return target == ErrInput }
