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
	// Again reads the value of a pair that Each gave a second time. ErrChanged
	// says that the file was written to meanwhile.
	Again(key []byte, at Place) ([]byte, error)
	Close() error
}

// Place is where in a source a pair lies.
type Place struct {
	Span
	stamp stamp
}

// ErrChanged says that a source is no longer what it was.
var ErrChanged = errors.New("changed meanwhile")

// Open opens a directory, or a file whose name tells its format.
func Open(path string) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openDirectory(path)
	}
	format, ok := FormatOf(path)
	if !ok {
		return nil, fmt.Errorf("%s is no directory, and its name does not end in .jsonl, .csv or .tsv", path)
	}
	return OpenFile(path, format)
}

// OpenFile opens a file of a known format.
func OpenFile(path string, f Format) (Source, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &fileSource{file: file, name: path, format: f, stamp: stampOf(info)}, nil
}

// fileSource is a file of many pairs.
type fileSource struct {
	file   *os.File
	name   string
	format Format
	stamp  stamp
	header string // of a table
}

func (s *fileSource) Bytes() int64 { return s.stamp.size }

func (s *fileSource) Each(fn func(Pair, Place) error) error {
	r := NewReader(s.format, s.file, s.name)
	err := Each(r, func(p Pair) error { return fn(p, Place{Span: r.Span(), stamp: s.stamp}) })
	if t, ok := r.(*table); ok && t.columns != nil {
		s.header = t.join(t.columns) + "\n"
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
	p, err := NewReader(s.format, io.MultiReader(strings.NewReader(s.header), part), s.name).Next()
	return p.Value, err
}

func (s *fileSource) Close() error { return s.file.Close() }

// Each calls fn with each pair of a Reader.
func Each(r Reader, fn func(Pair) error) error {
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
