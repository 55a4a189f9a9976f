package pairs

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// commas are the rows of a CSV file.
type commas struct {
	r    *csv.Reader
	name string
	from int64 // offset at which r begins
	span Span

	joined strings.Builder
	w      *csv.Writer // to joined; one for all rows, as each has a buffer
}

// newCommas reads from b, which stands at an offset of the file.
func newCommas(b *bufio.Reader, at int64, name string) *commas {
	c := csv.NewReader(b)
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	rows := &commas{r: c, name: name, from: at, span: Span{Offset: at}}
	rows.w = csv.NewWriter(&rows.joined)
	return rows
}

func (c *commas) row() ([]string, error) {
	fields, err := c.r.Read()
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return nil, &SyntaxError{File: c.name, Line: syntax.StartLine, Reason: syntax.Err.Error()}
	}
	if err != nil {
		return nil, err
	}
	line, _ := c.r.FieldPos(0)
	c.span = Span{Offset: c.span.Offset + c.span.Size, Line: line}
	c.span.Size = c.from + c.r.InputOffset() - c.span.Offset
	return fields, nil
}

func (c *commas) join(fields []string) string {
	c.joined.Reset()
	_ = c.w.Write(fields) // a Builder can't fail
	c.w.Flush()
	return strings.TrimSuffix(c.joined.String(), "\n")
}

func (c *commas) Span() Span { return c.span }

type commaWriter struct {
	w     *csv.Writer
	began bool
}

func newCommaWriter(w io.Writer) *commaWriter { return &commaWriter{w: csv.NewWriter(w)} }

func (w *commaWriter) Write(p Pair) error {
	if !w.began {
		w.began = true
		if err := w.w.Write(header); err != nil {
			return err
		}
	}
	return w.w.Write(p.fields(plainInCSV))
}

// plainInCSV reports whether a field of CSV can hold b as it is. Readers of CSV drop a carriage
// return before a line feed.
func plainInCSV(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, '\r') }

func (w *commaWriter) Flush() error {
	w.w.Flush()
	return w.w.Error()
}
