package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/cmd/brock/internal/trial"
	"github.com/brockdb/brock/vfs"
)

type tryCommand struct {
	Path string `arg:"" optional:"" help:"A directory, or a .jsonl, .csv or .tsv file; without it, the source tree of the Go toolchain."`
	inputFlags
	Dir     string        `help:"Make the store below this directory, on the disk that you want to try; default: the system's temporary directory." placeholder:"DIR"`
	Keep    bool          `help:"Keep the store. By default it is removed, unless something failed."`
	Rounds  int           `default:"10" help:"How often a process is killed while it writes; half as many more are killed while they recover."`
	Updates time.Duration `default:"2s" help:"How long concurrent transactions run."`
	Seed    uint64        `help:"Seed of everything random; 0 = draw one."`
	JSON    bool          `help:"Print the report as JSON."`
}

// errNoSource says that the Go toolchain was installed without its sources.
var errNoSource = errors.New("the Go toolchain's source tree is not on this machine; name a directory or a file: brock try PATH")

var errInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)

// Run tries a fresh store, and reports each step as soon as it is done.
func (c *tryCommand) Run(a *app) error {
	name, source, err := c.source()
	if err != nil {
		return err
	}
	defer source.Close()
	dir, err := c.makeDir(source.Bytes())
	if err != nil {
		return err
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1 << 32)
	}
	config := trial.Config{
		Source: source, Dir: dir, Seed: c.Seed, Rounds: c.Rounds, Updates: c.Updates, Writer: writerProcess,
		Progress: a.progress,
		Done:     func(trial.Step) {},
	}
	if !c.JSON {
		fmt.Fprintf(a.out, "Brock tries a fresh store with %s\n\n", name)
		config.Done = func(s trial.Step) { fmt.Fprintln(a.out, s) }
	}
	report, err := trial.Run(a.ctx, config)
	report.Source = name
	if a.ctx.Err() != nil {
		err = errInterrupted // whatever else it led to
	}
	return errors.Join(err, c.finish(a, report, err))
}

// finish prints the end of the report and removes the store.
func (c *tryCommand) finish(a *app, r *trial.Report, failure error) error {
	refused := errors.Is(failure, pairs.ErrInput)
	keep := c.Keep || failure != nil && failure != errInterrupted && !refused
	var removed error
	if !keep {
		removed = os.RemoveAll(r.Dir)
	}
	if c.JSON {
		return errors.Join(removed, writeJSON(a.out, r))
	}
	verdict, left := "All is well", "the store is removed (--keep keeps it)"
	switch {
	case failure == errInterrupted:
		verdict = "Interrupted"
	case refused:
		verdict = "The input was refused"
	case failure != nil:
		verdict = fmt.Sprintf("FAILED (--seed %d)", r.Seed)
	}
	if keep {
		left = "the store is in " + r.Dir
	}
	fmt.Fprintf(a.out, "\n%s, after %s; %s.\n", verdict, human.Duration(r.Took), left)
	return removed
}

// source opens what the store is filled with, and says what it is.
func (c *tryCommand) source() (name string, s pairs.Source, err error) {
	if c.Path != "" {
		s, err = pairs.Open(c.Path, c.form())
		return c.Path, s, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", nil, fmt.Errorf("%w (go env GOROOT: %w)", errNoSource, err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	if _, err := os.Stat(filepath.Join(src, "runtime")); err != nil {
		return "", nil, fmt.Errorf("%w (%w)", errNoSource, err)
	}
	s, err = pairs.Open(src, pairs.Form{})
	return "the Go source tree, " + src, s, err
}

// makeDir makes the directory of the store. It returns an error if the disk has no room for it.
func (c *tryCommand) makeDir(size int64) (string, error) {
	parent := c.Dir
	if parent == "" {
		parent = os.TempDir()
	} else if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	const slack = 512 << 20 // journal and manifest segments, and what the steps add
	if free, err := vfs.OS().Free(parent); err == nil && free >= 0 && free < 2*size+slack {
		return "", fmt.Errorf("%s are free in %s, and the trial may need %s; choose another place by --dir", human.Bytes(free), parent, human.Bytes(2*size+slack))
	}
	return os.MkdirTemp(parent, "brock-try-")
}

// writerProcess returns the command for the process that is killed: this program.
func writerProcess(dir string, round int, seed uint64) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.Command(self, "try-writer", dir, "--round", strconv.Itoa(round), "--seed", strconv.FormatUint(seed, 10))
}
