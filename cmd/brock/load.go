package main

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type loadCommand struct {
	store
	keyspaceFlag
	Path   string       `arg:"" help:"A .jsonl, .csv or .tsv file, a directory, or - for standard input. CSV and TSV have a header key,value; without one, keys are in the first column. Of a directory, paths become keys and contents values."`
	Format pairs.Format `enum:",jsonl,csv,tsv" default:"" help:"Format; default: as the file's name says, jsonl for standard input."`
}

// Run writes the pairs in groups. If a line is wrong, those before it stay.
func (c *loadCommand) Run(a *app) error {
	each, total, closeSource, err := c.source(a)
	if err != nil {
		return err
	}
	defer closeSource()
	work := a.progress.Start("load", total)
	var stored int64
	err = c.write(a, func(db *brock.DB) error {
		ks, err := c.open(db)
		if err != nil {
			return err
		}
		w := db.NewWriter(a.ctx)
		if ks != nil {
			w = ks.NewWriter(a.ctx)
		}
		err = each(func(p pairs.Pair) error {
			if err := w.SetEntry(p.Entry()); err != nil {
				return fmt.Errorf("pair %s: %w", human.Count(stored+1), err)
			}
			work.Add(int64(len(p.Key) + len(p.Value)))
			stored++
			return nil
		})
		return errors.Join(err, w.Close())
	})
	work.End()
	var syntax *pairs.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w; pairs stored before it: %s", err, human.Count(stored))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s pairs stored\n", human.Count(stored))
	return nil
}

// source opens what is to be loaded: how to walk it, its size if that is known,
// and how to close it.
func (c *loadCommand) source(a *app) (each func(func(pairs.Pair) error) error, total int64, end func(), err error) {
	if c.Path == "-" {
		format := c.Format
		if format == "" {
			format = pairs.JSONL
		}
		r := pairs.NewReader(format, a.in, "standard input")
		return func(fn func(pairs.Pair) error) error { return pairs.Each(r, fn) }, 0, func() {}, nil
	}
	var s pairs.Source
	if c.Format != "" {
		s, err = pairs.OpenFile(c.Path, c.Format)
	} else {
		s, err = pairs.Open(c.Path)
	}
	if err != nil {
		return nil, 0, nil, err
	}
	each = func(fn func(pairs.Pair) error) error {
		return s.Each(func(p pairs.Pair, _ pairs.Place) error { return fn(p) })
	}
	return each, s.Bytes(), func() { _ = s.Close() }, nil
}
