package pairs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock"
)

// maxLine is more than the largest value takes in any encoding but the wildest.
const maxLine int64 = 2 * brock.MaxValueSize

// lines reads a file line by line and keeps account of where it is.
type lines struct {
	r    *bufio.Reader
	name string
	span Span
	long []byte // a line that exceeds the buffer
}

// newLines reads from b, which stands at an offset of the file.
func newLines(b *bufio.Reader, at int64, name string) *lines {
	return &lines{r: b, name: name, span: Span{Offset: at}}
}

// next returns the next line without its end, valid until the next call, or io.EOF.
func (l *lines) next() ([]byte, error) {
	l.span.Offset += l.span.Size
	l.span.Line++
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.rest(line)
	}
	l.span.Size = int64(len(line))
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// rest completes a line of which the buffer holds the beginning.
func (l *lines) rest(begin []byte) ([]byte, error) {
	l.long = append(l.long[:0], begin...)
	for {
		part, err := l.r.ReadSlice('\n')
		l.long = append(l.long, part...)
		if int64(len(l.long)) > maxLine {
			return nil, l.bad("longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
}

// Span returns where the last line lies.
func (l *lines) Span() Span { return l.span }

func (l *lines) bad(format string, args ...any) error {
	return &SyntaxError{File: l.name, Line: l.span.Line, Reason: fmt.Sprintf(format, args...)}
}
