package pairs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Source is where pairs come from: a file or a directory.
type Source interface {
	// Bytes is the size of what Each reads, 0 if that is unknown.
	Bytes() int64
	// Each calls fn with each pair, which is fn's, and where it lies.
	Each(fn func(p Pair, at Place) error) error
	// Headerless reports whether Each took the first line of a table for a pair.
	Headerless() bool
	// Again reads the value of a pair a second time. It returns ErrChanged if the file was
	// written to since Each has read it.
	Again(key []byte, at Place) ([]byte, error)
	Close() error
}

// Place is where in a source a pair lies.
type Place struct {
	Span
	File  string
	stamp stamp
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
			return nil, &SyntaxError{File: path, Reason: "no directory, and its name does not end in .jsonl, .csv or .tsv"}
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
	return &fileSource{file: file, name: path, form: f, stamp: stampOf(info)}, nil
}

// Stream returns a Source that can be read once only: Again returns an error.
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

func (s *stream) Again([]byte, Place) ([]byte, error) {
	return nil, fmt.Errorf("%s: %w", s.name, errors.ErrUnsupported)
}

func (s *stream) Each(fn func(Pair, Place) error) error {
	r := NewReader(s.form, s.r, s.name)
	err := each(r, func(p Pair) error { return fn(p, Place{Span: r.Span(), File: s.name}) })
	if t, ok := r.(*table); ok {
		_, s.bare = t.header()
	}
	return err
}

// fileSource is a file of many pairs.
type fileSource struct {
	file   *os.File
	name   string
	form   Form
	stamp  stamp
	header string // of a table
	bare   bool   // a table without one
}

func (s *fileSource) Bytes() int64     { return s.stamp.size }
func (s *fileSource) Headerless() bool { return s.bare }

func (s *fileSource) Each(fn func(Pair, Place) error) error {
	r := NewReader(s.form, s.file, s.name)
	err := each(r, func(p Pair) error { return fn(p, Place{Span: r.Span(), File: s.name, stamp: s.stamp}) })
	if t, ok := r.(*table); ok {
		s.header, s.bare = t.header()
	}
	return err
}

func (s *fileSource) Again(_ []byte, at Place) ([]byte, error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	if stampOf(info) != at.stamp {
		return nil, fmt.Errorf("%s: %w", s.name, ErrChanged)
	}
	part := io.NewSectionReader(s.file, at.Offset, at.Size)
	p, err := NewReader(s.form, io.MultiReader(strings.NewReader(s.header), part), s.name).Next()
	return p.Value, err
}

func (s *fileSource) Close() error { return s.file.Close() }

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
