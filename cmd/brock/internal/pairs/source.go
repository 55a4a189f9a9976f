package pairs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// Source is where pairs come from: a file or a directory.
type Source interface {
	// Bytes is the size of what Each reads, 0 if that is unknown.
	Bytes() int64
	// Each calls fn with each pair, which is fn's, and where it lies.
	Each(fn func(p Pair, at Place) error) error
	// Headerless reports whether Each took the first line of a table for a pair.
	Headerless() bool
	// Again returns what reads values a second time, after Each.
	Again() Rereader
	Close() error
}

// Rereader reads values of a Source that Each has read before. One goroutine at a time uses it.
type Rereader interface {
	// Value returns the value of a pair, valid until the next call. If the file was written to since
	// Each has read it, that may be another value, or ErrChanged.
	Value(key []byte, at Place) ([]byte, error)
}

// Place is where in a source a pair lies. Its Span says which bytes of File are the pair; a file of
// a directory is a pair as a whole.
type Place struct {
	Span
	File string
}

// Refuse returns a *SyntaxError for the pair that lies there.
func (p *Place) Refuse(reason string) error {
	return &SyntaxError{File: p.File, Line: p.Line, Reason: reason}
}

// ErrChanged says that a source is no longer what it was.
var ErrChanged = errors.New("changed meanwhile")

// Open opens a directory, or a file, whose name tells its format if f doesn't.
func Open(path string, f Form) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if f != (Form{}) {
			return nil, &SyntaxError{File: path, Reason: "a directory has no format, key field or header"}
		}
		return openDirectory(path)
	}
	if f.Format == "" {
		format, ok := FormatOf(path)
		if !ok {
			return nil, &SyntaxError{File: path, Reason: "not a directory, and its name does not end in .jsonl, .csv or .tsv (--format names the format)"}
		}
		f.Format = format
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &fileSource{file: file, name: path, form: f, size: info.Size()}, nil
}

// Stream returns a Source that can be read once only: a second time returns an error.
func Stream(r io.Reader, f Form, name string) Source {
	if f.Format == "" {
		f.Format = JSONL
	}
	return &stream{r: r, form: f, name: name}
}

type stream struct {
	r    io.Reader
	form Form
	name string
	bare bool
}

func (s *stream) Bytes() int64     { return 0 }
func (s *stream) Headerless() bool { return s.bare }
func (s *stream) Close() error     { return nil }

func (s *stream) Again() Rereader { return s }

func (s *stream) Value([]byte, Place) ([]byte, error) {
	return nil, fmt.Errorf("%s: %w", s.name, errors.ErrUnsupported)
}

func (s *stream) Each(fn func(Pair, Place) error) error {
	r := NewReader(s.form, s.r, s.name)
	err := each(r, func(p Pair) error { return fn(p, Place{r.Span(), s.name}) })
	if t, ok := r.(*table); ok {
		s.bare = t.bare()
	}
	return err
}

// fileSource is a file of many pairs.
type fileSource struct {
	file *os.File
	name string
	form Form
	size int64
	head columns // of a table
	bare bool    // a table without a header

	reread sync.Once
	again  io.ReaderAt // what is read again: the file, or its text in memory
}

// inMemory is the size of a file, in bytes, up to which all of it is in memory to be read again: a
// system call for each row would take as long as all else.
const inMemory = 256 << 20

func (s *fileSource) Bytes() int64     { return s.size }
func (s *fileSource) Headerless() bool { return s.bare }

func (s *fileSource) Each(fn func(Pair, Place) error) error {
	r := NewReader(s.form, s.file, s.name)
	err := each(r, func(p Pair) error { return fn(p, Place{r.Span(), s.name}) })
	if t, ok := r.(*table); ok {
		s.head, s.bare = t.columns, t.bare()
	}
	return err
}

func (s *fileSource) Close() error { return s.file.Close() }

// Again returns a Rereader that holds the longest pair in memory. All of them share the text of a
// small file, which the first one reads.
func (s *fileSource) Again() Rereader {
	s.reread.Do(func() {
		s.again = s.file
		if s.size > inMemory {
			return
		}
		text := make([]byte, s.size)
		if _, err := s.file.ReadAt(text, 0); err == nil {
			s.again = bytes.NewReader(text)
		}
	})
	a := &fileAgain{fileSource: s}
	a.begin()
	return a
}

// fileAgain reads pairs of a file in any order.
type fileAgain struct {
	*fileSource
	part []byte // of the file: one pair
	left bytes.Reader
	text *bufio.Reader // of left
	pair Reader        // of text: reads one part after another
}

// begin makes a Reader that has read the header, if there is one.
func (a *fileAgain) begin() {
	a.text = bufio.NewReaderSize(&a.left, 4<<10) // encoding/csv takes no smaller one as it is
	a.pair = newReader(a.form, a.text, 0, a.name)
	if t, ok := a.pair.(*table); ok {
		t.began, t.columns = true, a.head
	}
}

func (a *fileAgain) Value(_ []byte, at Place) ([]byte, error) {
	a.part = slices.Grow(a.part[:0], int(at.Size))[:at.Size]
	if _, err := a.again.ReadAt(a.part, at.Offset); err == io.EOF {
		return nil, ErrChanged
	} else if err != nil {
		return nil, err
	}
	a.left.Reset(a.part)
	p, err := a.pair.Next()
	if err != nil || a.left.Len()+a.text.Buffered() > 0 {
		a.begin() // without what is left
		return nil, ErrChanged
	}
	return p.Value, nil
}

// each calls fn with each pair of a Reader.
func each(r Reader, fn func(Pair) error) error {
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(p); err != nil {
			return err
		}
	}
}
