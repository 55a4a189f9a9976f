package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

type dumpCommand struct {
	readable
	Keyspace *string `help:"Only the pairs of this keyspace; --keyspace= means the default one. Without it, the pairs of all keyspaces, and their options." placeholder:"NAME"`
	Prefix   string  `help:"Only keys that begin with this."`
	keySyntax
	Path   string       `arg:"" default:"-" help:"A new .jsonl, .csv or .tsv file, or - for standard output."`
	Format pairs.Format `enum:",jsonl,csv,tsv" default:"" placeholder:"FORMAT" help:"jsonl, csv or tsv; default: as the file's name says, jsonl for standard output. CSV and TSV hold the pairs of one keyspace."`
}

// Run writes what one transaction sees. An existing file is not touched.
func (c *dumpCommand) Run(a *app) error {
	prefix, err := c.key(c.Prefix)
	if err != nil {
		return err
	}
	d := dumping{app: a, name: "dump", only: c.Keyspace, prefix: prefix, format: c.Format}
	switch byName, ok := pairs.FormatOf(c.Path); {
	case d.format != "":
	case c.Path == "-":
		d.format = pairs.JSONL
	case ok:
		d.format = byName
	default:
		return wrongUsage("%s does not end in .jsonl, .csv or .tsv; name the format by --format", c.Path)
	}
	return d.write(&c.readable, c.Path)
}

// dumping is a dump under way.
type dumping struct {
	*app
	name    string  // of the work
	only    *string // nil = all keyspaces
	prefix  []byte
	format  pairs.Format
	work    *progress.Work
	written int64
	full    bool // each pair with its keyspace and version
	every   bool // all versions of each key
}

// write writes to a new file, or to standard output. Of a dump that fails no file is left.
func (d *dumping) write(s *readable, path string) error {
	if path == "-" {
		return d.run(s, d.out)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = d.run(s, f)
	wrote := errors.Join(f.Sync(), f.Close())
	if wrote != nil || err != nil {
		return errors.Join(err, wrote, os.Remove(path))
	}
	fmt.Fprintf(d.err, "%s pairs written\n", human.Count(d.written))
	return nil
}

func (d *dumping) run(s *readable, to io.Writer) error {
	out := bufio.NewWriterSize(to, 1<<20)
	w := pairs.NewWriter(d.format, out)
	d.work = d.progress.Start(d.name, 0)
	err := s.read(d.app, func(db *brock.DB) error {
		return db.ViewContext(d.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return d.all(db, txn, w) })
	})
	d.work.End()
	return errors.Join(err, w.Flush(), out.Flush())
}

// all writes the keyspaces that were asked for: a section for each but the default one.
func (d *dumping) all(db *brock.DB, txn *brock.Txn, w pairs.Writer) error {
	if d.every {
		return d.history(db, txn, w)
	}
	if d.only != nil {
		ks, err := keyspaceFlag{*d.only}.find(db)
		if err != nil {
			return err
		}
		return d.pairs(txn.In(ks), *d.only, w)
	}
	named := slices.Collect(db.Keyspaces())
	sections, ok := w.(pairs.SectionWriter)
	if !ok && len(named) > 0 {
		return wrongUsage("the store has %s, and %s holds the pairs of one: use --format=jsonl, --keyspace=NAME, or --keyspace= for the default one",
			human.Things(int64(len(named)), "named keyspace"), d.format)
	}
	if err := d.pairs(txn, "", w); err != nil {
		return err
	}
	for _, ks := range named {
		if err := sections.Begin(pairs.SectionOf(ks)); err != nil {
			return err
		}
		if err := d.pairs(txn.In(ks), ks.Name(), w); err != nil {
			return err
		}
	}
	return nil
}

// pairs writes those of the transaction's keyspace.
func (d *dumping) pairs(txn *brock.Txn, keyspace string, w pairs.Writer) error {
	for item, err := range txn.Items(brock.IteratorOptions{Prefix: d.prefix, Prefetch: 64}) {
		if err != nil {
			return err
		}
		p, err := pairs.Of(item)
		if err != nil {
			return err
		}
		if d.full {
			p.Keyspace, p.Version = &keyspace, item.Version()
		}
		if err := w.Write(p); err != nil {
			return err
		}
		d.written++
		d.work.Add(int64(len(p.Key) + len(p.Value)))
	}
	return nil
}
