package importers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	pebble1 "github.com/cockroachdb/pebble"
	pebble2 "github.com/cockroachdb/pebble/v2"
)

// pebbleSource is a store of Pebble. The library opens a stand-in for it read-only, and replays its
// log in memory. Stores of old formats are read by Pebble 1.
type pebbleSource struct {
	path      string
	iterate   func(from []byte) (pebbleIterator, error)
	rangeKeys func() (pebbleIterator, error) // nil: the format has none
	end       func() error
	release   func()
}

// pebbleIterator is what iterators of both major versions are.
type pebbleIterator interface {
	First() bool
	Next() bool
	Key() []byte
	ValueAndErr() ([]byte, error)
	Error() error
	Close() error
}

// quiet is a logger. What is wrong is in the errors, too.
type quiet struct{}

func (quiet) Infof(string, ...any)    {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Errorf(string, ...any)   {}

// Fatalf must not return; guard makes an error of the panic.
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func openPebble(path, staged string) (_ source, err error) {
	s := &pebbleSource{path: path}
	if s.release, err = lockPath(filepath.Join(path, lockName), false); err != nil {
		return nil, err
	}
	if err = logIsHere(path); err == nil {
		err = stageFiles(path, staged, linked)
	}
	if err == nil {
		if err = guard(func() error { return s.open2(staged) }); err != nil {
			// Each version refuses the formats of the other one. Which error says more is not known.
			if older := guard(func() error { return s.open1(staged) }); older != nil {
				err = sourceError(path, fmt.Errorf("by Pebble 2: %w; by Pebble 1: %w", err, older))
			} else {
				err = nil
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// logIsHere returns an error if the log has a directory of its own: without it, the store would seem to
// be an older one.
func logIsHere(path string) error {
	files, err := filepath.Glob(filepath.Join(path, "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		return err
	}
	// The greatest number is that of the last opening; they have six digits or more.
	last := slices.MaxFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	text, err := os.ReadFile(last)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "wal_dir="); ok && dir != "" && filepath.Clean(dir) != filepath.Clean(path) {
			return fmt.Errorf("%s %w: its log is in %s; close the store in order, and set it to have its log with it", path, ErrSource, dir)
		}
	}
	return nil
}

func (s *pebbleSource) open2(staged string) error {
	db, err := pebble2.Open(staged, &pebble2.Options{ReadOnly: true, ErrorIfNotExists: true, Logger: quiet{}})
	if err != nil {
		return err
	}
	s.end = db.Close
	s.iterate = func(from []byte) (pebbleIterator, error) {
		return db.NewIter(&pebble2.IterOptions{LowerBound: from})
	}
	s.rangeKeys = func() (pebbleIterator, error) {
		return db.NewIter(&pebble2.IterOptions{KeyTypes: pebble2.IterKeyTypeRangesOnly})
	}
	return nil
}

func (s *pebbleSource) open1(staged string) error {
	db, err := pebble1.Open(staged, &pebble1.Options{ReadOnly: true, ErrorIfNotExists: true, Logger: quiet{}})
	if err != nil {
		return err
	}
	s.end = db.Close
	s.iterate = func(from []byte) (pebbleIterator, error) {
		return db.NewIter(&pebble1.IterOptions{LowerBound: from})
	}
	if db.FormatMajorVersion() >= pebble1.FormatRangeKeys { // else it panics
		s.rangeKeys = func() (pebbleIterator, error) {
			return db.NewIter(&pebble1.IterOptions{KeyTypes: pebble1.IterKeyTypeRangesOnly})
		}
	}
	return nil
}

func (s *pebbleSource) spaces(context.Context) ([]space, error) { return []space{{}}, nil }

func (s *pebbleSource) scan(ctx context.Context, _ string, from []byte, fn func(*pair) error) error {
	return s.walk(ctx, func() (pebbleIterator, error) { return s.iterate(from) }, fn)
}

// walk calls fn with what an iterator walks.
func (s *pebbleSource) walk(ctx context.Context, open func() (pebbleIterator, error), fn func(*pair) error) (err error) {
	var it pebbleIterator
	var p pair
	step := func(move func() bool) func() error {
		return func() (err error) {
			if p.key = nil; move() {
				p.key = it.Key()
				p.value, err = it.ValueAndErr()
				if p.key == nil {
					p.key = []byte{}
				}
			}
			return err
		}
	}
	if err := guard(func() (err error) { it, err = open(); return err }); err != nil {
		return sourceError(s.path, err)
	}
	defer func() { err = errors.Join(err, sourceError(s.path, guard(it.Close))) }()
	failure := guard(step(it.First))
	for failure == nil && p.key != nil {
		if err := errors.Join(ctx.Err(), fn(&p)); err != nil {
			return err
		}
		failure = guard(step(it.Next))
	}
	if failure == nil {
		return nil // an error of the iterator is what Close returns
	}
	return sourceError(s.path, failure)
}

func (s *pebbleSource) history(context.Context, func(*pair) error) error { return errNoHistory }

func (s *pebbleSource) lost(ctx context.Context) ([]string, error) {
	if s.rangeKeys == nil {
		return nil, nil
	}
	n := 0
	err := s.walk(ctx, s.rangeKeys, func(*pair) error { n++; return nil })
	if err != nil || n == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("Pebble's range keys are not kept: there are %d spans of them", n)}, nil
}

func (s *pebbleSource) close() (err error) {
	if s.end != nil {
		err = guard(s.end)
	}
	s.release()
	return err
}
