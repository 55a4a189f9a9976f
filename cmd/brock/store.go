package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock"
)

// store is the argument of most commands.
type store struct {
	Dir      string `arg:"" help:"Directory of the store."`
	ValueDir string `help:"Directory of the journal and the value segments, if the store has one of its own." placeholder:"DIR"`
}

// read opens the store read-only for fn: nothing is written, and other readers
// may be at work.
func (s *store) read(a *app, fn func(*brock.DB) error) error {
	return s.use(a, brock.Options{Mode: brock.ReadOnly}, fn)
}

// write opens the store for fn, and makes it if there is none.
func (s *store) write(a *app, fn func(*brock.DB) error) error {
	return s.use(a, brock.Options{}, fn)
}

func (s *store) use(a *app, o brock.Options, fn func(*brock.DB) error) error {
	o.Dir, o.ValueDir = s.Dir, s.ValueDir
	db, err := brock.OpenContext(a.ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}

// keySyntax says how keys are written on the command line.
type keySyntax struct {
	Hex bool `help:"Keys on the command line are hexadecimal."`
}

func (k keySyntax) key(s string) ([]byte, error) {
	if !k.Hex {
		return []byte(s), nil
	}
	key, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", errUsage, s, err)
	}
	return key, nil
}

// writeJSON writes v indented.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeLine writes v as one line of JSON.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
