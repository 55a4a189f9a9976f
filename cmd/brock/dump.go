package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type dumpCommand struct {
	store
	keyspaceFlag
	Path   string       `arg:"" default:"-" help:"A new .jsonl, .csv or .tsv file, or - for standard output."`
	Format pairs.Format `enum:",jsonl,csv,tsv" default:"" help:"Format; default: as the file's name says, jsonl for standard output."`
}

// Run writes what one transaction sees. An existing file is not touched.
func (c *dumpCommand) Run(a *app) error {
	format := c.Format
	if format == "" {
		format = pairs.JSONL
	}
	if c.Path == "-" {
		_, err := c.dump(a, a.out, format)
		return err
	}
	if byName, ok := pairs.FormatOf(c.Path); ok && c.Format == "" {
		format = byName
	} else if c.Format == "" {
		return fmt.Errorf("%w: %s does not end in .jsonl, .csv or .tsv; name the format by --format", errUsage, c.Path)
	}
	f, err := os.OpenFile(c.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := c.dump(a, f, format)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(c.Path))
	}
	fmt.Fprintf(a.err, "%s pairs written\n", human.Count(n))
	return nil
}

func (c *dumpCommand) dump(a *app, to io.Writer, format pairs.Format) (n int64, err error) {
	out := bufio.NewWriterSize(to, 1<<20)
	w := pairs.NewWriter(format, out)
	work := a.progress.Start("dump", 0)
	err = c.read(a, func(db *brock.DB) error {
		return c.view(a, db, func(txn *brock.Txn) error {
			for item, err := range txn.Items(brock.IteratorOptions{Prefetch: 64}) {
				if err != nil {
					return err
				}
				p, err := pairs.Of(item)
				if err != nil {
					return err
				}
				if err := w.Write(p); err != nil {
					return err
				}
				n++
				work.Add(int64(len(p.Key) + len(p.Value)))
			}
			return nil
		})
	})
	work.End()
	return n, errors.Join(err, w.Flush(), out.Flush())
}
