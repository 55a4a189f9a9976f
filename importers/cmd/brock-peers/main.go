// Command brock-peers moves data between Brock and other embedded stores. It is a program of its own
// because it has the libraries of all of them; brock import and brock export --bbolt run it.
//
//	brock-peers import badger4 DIR STORE   makes a store of one of Badger 4
//	brock-peers compare badger4 DIR STORE  compares the two, pair by pair
//	brock-peers export STORE FILE          writes a store to a bbolt file
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/importers"
)

// The exit codes, which are those of brock.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitCorrupt     = 4
	exitInUse       = 5
	exitInput       = 6
	exitInterrupted = 130
)

type commands struct {
	Import  importCommand  `cmd:"" help:"Make a store of one of another engine, and compare the two."`
	Compare compareCommand `cmd:"" help:"Compare a store with the one that it was imported from, pair by pair."`
	Export  exportCommand  `cmd:"" help:"Write a store to a new bbolt file."`
}

// app is what commands get from their surroundings.
type app struct {
	ctx      context.Context
	out, err io.Writer
	progress *progress
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once. But not if it is the same one: a terminal sends it to
	// this process and to brock, which sends it on.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	a := &app{ctx: ctx, out: os.Stdout, err: os.Stderr}
	a.progress = &progress{w: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd())), now: time.Now}
	os.Exit(a.run(os.Args[1:]))
}

// run executes one command line and returns its exit code.
func (a *app) run(args []string) int {
	parser := kong.Must(&commands{}, kong.Name("brock-peers"), kong.Writers(a.out, a.err), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Description("brock-peers moves data between Brock and other embedded stores."))
	line, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(a.err, "brock-peers:", err)
		return exitUsage
	}
	err = line.Run(a)
	a.progress.end()
	if err == nil {
		return 0
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	fmt.Fprintln(a.err, "brock:", text)
	return exitCode(err)
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	switch {
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, brock.ErrCorrupt):
		return exitCorrupt
	case errors.Is(err, brock.ErrLocked):
		return exitInUse
	case errors.Is(err, importers.ErrRefused):
		return exitInput
	case errors.Is(err, importers.ErrUsage), errors.Is(err, brock.ErrInvalid):
		return exitUsage
	}
	return exitFailed
}

// target is the store of Brock.
type target struct {
	Store    string `arg:"" help:"Directory of the store of Brock."`
	ValueDir string `help:"Directory of its journal and value segments, if they have one of their own." placeholder:"DIR"`
	KeyFile  string `help:"Key file of an encrypted store. A new store is encrypted with it." placeholder:"FILE" env:"BROCK_KEY_FILE"`
}

func (t *target) storeOptions() brock.Options {
	o := brock.Options{Dir: t.Store, ValueDir: t.ValueDir}
	if t.KeyFile != "" {
		o.Keys = brock.KeyFile(t.KeyFile)
	}
	return o
}

// origin is the source of an import.
type origin struct {
	Peer           importers.Peer `arg:"" enum:"badger4,badger3,badger2,badger1,bbolt,leveldb,pebble" help:"The engine of the source: badger4, badger3, badger2, badger1, bbolt, leveldb or pebble."`
	Source         string         `arg:"" help:"Directory of the source; the file of bbolt. Nothing is written to it."`
	SourceValueDir string         `help:"Directory of Badger's value log, if it has one of its own." placeholder:"DIR"`
	SourceKeyFile  string         `help:"File with the key of an encrypted store of Badger, as its own tool takes it." placeholder:"FILE"`
	History        bool           `help:"All versions and deletes of Badger, not only the newest pairs."`
	Keyspace       string         `help:"Keyspace for the pairs, in place of the default one; neither of bbolt nor with --history." placeholder:"NAME"`
}

func (o *origin) options(t *target, p *progress) (importers.Options, error) {
	all := importers.Options{
		Peer: o.Peer, Source: o.Source, SourceValueDir: o.SourceValueDir,
		History: o.History, Keyspace: o.Keyspace, Store: t.storeOptions(), Progress: p.show,
	}
	if o.SourceKeyFile == "" {
		return all, nil
	}
	key, err := os.ReadFile(o.SourceKeyFile)
	// An editor may have ended the line. No key has 17, 25 or 33 bytes.
	if n := len(key); n%8 == 1 {
		key = bytes.TrimSuffix(key, []byte("\n"))
	}
	all.SourceKey = key
	return all, err
}

type importCommand struct {
	origin
	target
}

// Run imports and compares.
func (c *importCommand) Run(a *app) error {
	o, err := c.options(&c.target, a.progress)
	if err != nil {
		return err
	}
	s, err := importers.Import(a.ctx, o)
	a.progress.end()
	if s != nil && err != nil {
		return a.differ(&s.Compared, err)
	}
	if err != nil {
		if _, unfinished := os.Stat(c.Store + importers.WorkSuffix); unfinished == nil && !errors.Is(err, importers.ErrNotEmpty) {
			fmt.Fprintln(a.err, "the import is not finished: the same command goes on where it was")
		}
		return err
	}
	what := "pairs"
	if c.History {
		what = "versions"
	}
	if s.Resumed {
		fmt.Fprintln(a.err, "an earlier import was gone on with")
	}
	for _, lost := range s.Lost {
		fmt.Fprintln(a.err, lost)
	}
	_, err = fmt.Fprintf(a.out, "%s is a store: %s %s written, %s compared, all equal\n", c.Store, count(s.Pairs), what, count(s.Compared.Pairs))
	return err
}

type compareCommand struct {
	origin
	target
}

// Run prints the first differences.
func (c *compareCommand) Run(a *app) error {
	o, err := c.options(&c.target, a.progress)
	if err != nil {
		return err
	}
	r, err := importers.Compare(a.ctx, o)
	a.progress.end()
	if r == nil {
		return err
	}
	if err != nil {
		return a.differ(r, err)
	}
	_, err = fmt.Fprintf(a.out, "%s pairs compared, all equal\n", count(r.Pairs))
	return err
}

// differ prints the first differences that a compare has found before it ended with an error.
func (a *app) differ(r *importers.Compared, err error) error {
	for _, d := range r.First {
		fmt.Fprintln(a.out, d)
	}
	if errors.Is(err, importers.ErrDiffers) {
		return fmt.Errorf("%w: %s differences in %s pairs", err, count(r.Differences), count(r.Pairs))
	}
	return err
}

type exportCommand struct {
	target
	File          string `arg:"" help:"The new bbolt file."`
	DefaultBucket string `help:"Bucket for the pairs of the default keyspace." default:"default"`
}

// Run writes what one transaction sees. A store in use is followed.
func (c *exportCommand) Run(a *app) (err error) {
	o := c.storeOptions()
	o.Mode = brock.ReadOnly
	db, err := brock.OpenContext(a.ctx, o)
	if errors.Is(err, brock.ErrLocked) {
		o.Mode = brock.Follow
		db, err = brock.OpenContext(a.ctx, o)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	e, err := importers.ExportBbolt(a.ctx, db, c.File, importers.ExportOptions{DefaultBucket: c.DefaultBucket, Progress: a.progress.show})
	a.progress.end()
	if err != nil {
		return err
	}
	for _, lost := range e.Lost {
		fmt.Fprintln(a.err, lost)
	}
	_, err = fmt.Fprintf(a.out, "%s has %s pairs in %s buckets\n", c.File, count(e.Pairs), count(int64(e.Buckets)))
	return err
}
