// Downstream runs the tests of programs that use Badger, on genuine Badger and on this module, and
// prints a table. Run it by `make -C compat/badger downstream`, or for one program by
// `go run ./downstream -only badgerhold`.
//
// The programs come from the module proxy. One that the proxy doesn't have is left out, unless -source
// names a directory or a git repository with it: `-source github.com/ipfs/go-ds-badger4=DIR`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// options are what the flags say.
type options struct {
	root    string // of this repository
	work    string // everything is made here
	only    map[string]bool
	sources map[string]string // of a module, a directory or git repository
	timeout time.Duration     // of the tests of one program
	keep    bool              // what is in work
}

func parseFlags() (*options, error) {
	o := &options{only: map[string]bool{}, sources: map[string]string{}}
	only := flag.String("only", "", "names of programs, with commas between")
	flag.StringVar(&o.work, "work", "", "directory for copies of the programs; empty is a temporary one")
	flag.StringVar(&o.root, "root", "../..", "root of this repository")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "for the tests of one program")
	flag.BoolVar(&o.keep, "keep", false, "keep the temporary directory")
	flag.Func("source", "module=directory or git repository, in the place of the proxy; may be given again", func(s string) error {
		module, dir, found := strings.Cut(s, "=")
		if !found {
			return errors.New("want module=directory")
		}
		o.sources[module] = dir
		return nil
	})
	flag.Parse()
	for name := range strings.SplitSeq(*only, ",") {
		if name != "" {
			o.only[name] = true
		}
	}
	var err error
	o.root, err = filepath.Abs(o.root)
	return o, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseFlags()
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "downstream:", err)
		os.Exit(1)
	}
}

// errWorse means that tests fail here that pass on Badger, and that no program's list names.
var errWorse = errors.New("tests fail that pass on Badger")

func run(ctx context.Context, o *options) (err error) {
	if o.work == "" {
		if o.work, err = os.MkdirTemp("", "downstream-"); err != nil {
			return err
		}
		if !o.keep {
			defer func() { err = errors.Join(err, os.RemoveAll(o.work)) }()
		}
	}
	if o.work, err = filepath.Abs(o.work); err != nil {
		return err
	}
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return err
	}
	var rows []row
	for i := range programs {
		p := &programs[i]
		if len(o.only) > 0 && !o.only[p.name] {
			continue
		}
		fmt.Fprintln(os.Stderr, "running", p.name)
		r := runProgram(ctx, o, p)
		printRow(os.Stderr, &r)
		rows = append(rows, r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	printTable(os.Stdout, rows)
	for i := range rows {
		if len(rows[i].worse) > 0 {
			return errWorse
		}
	}
	return nil
}

// row is what came of one program.
type row struct {
	program         *program
	version         string
	genuine, ported *outcome
	worse           []string // tests that pass on Badger and not here
	err             error    // it could not be run
}

func runProgram(ctx context.Context, o *options, p *program) row {
	r := row{program: p}
	source, version, err := findSource(ctx, o, p)
	if err != nil {
		r.err = err
		return r
	}
	r.version = version
	if p.module == badgerPath {
		if r.err = runOwn(ctx, o, p, &r, source); r.err == nil {
			r.worse = r.ported.worseThan(r.genuine, p.differs)
		}
		return r
	}
	for _, onPorted := range []bool{false, true} {
		name := p.name + "-genuine"
		if onPorted {
			name = p.name + "-ported"
		}
		dir := filepath.Join(o.work, name)
		if err := prepareProgram(ctx, p, source, dir); err != nil {
			r.err = err
			return r
		}
		if onPorted {
			ported := filepath.Join(o.work, p.name+"-badger")
			if err := writePorted(o.root, ported, p.limited); err != nil {
				r.err = fmt.Errorf("copy of this module: %w", err)
				return r
			}
			if err := usePorted(ctx, filepath.Join(dir, p.tests), ported, o.root); err != nil {
				r.err = err
				return r
			}
		}
		result, err := runTests(ctx, p, filepath.Join(dir, p.tests), o.timeout)
		if err != nil {
			r.err = err
			return r
		}
		if onPorted {
			r.ported = result
		} else {
			r.genuine = result
		}
	}
	r.worse = r.ported.worseThan(r.genuine, p.differs)
	return r
}
