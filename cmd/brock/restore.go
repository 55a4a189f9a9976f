package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

type restoreCommand struct {
	Paths    []string `arg:"" name:"backup|dir" help:"Backups in the order in which they were made, a full one first, or - for standard input; then the directory of the new store, which must be empty or not exist."`
	ValueDir string   `help:"Directory for the journal and the value segments, if the store shall have one of its own." placeholder:"DIR"`
	keyFlag
}

// Run makes a store of backups.
func (c *restoreCommand) Run(a *app) error {
	last := len(c.Paths) - 1
	if last < 1 {
		return wrongUsage("restore wants one backup or more, and the directory of the new store")
	}
	dir := c.Paths[last]
	info, err := withBackups(a, "restore", c.Paths[:last], func(ctx context.Context, r io.Reader) (*brock.BackupInfo, error) {
		return brock.Restore(ctx, r, brock.Options{Dir: dir, ValueDir: c.ValueDir, Keys: c.provider()})
	})
	if err != nil {
		return c.missing(strings.Join(c.Paths[:last], " "), err)
	}
	_, err = fmt.Fprintf(a.out, "%s is a store as of version %d\n", dir, info.Version)
	return err
}

type verifyBackupCommand struct {
	Files []string `arg:"" name:"backup" help:"Backups in the order in which they were made, or - for standard input. The first may be an increment."`
}

// Run checks backups, and that each follows the one before.
func (c *verifyBackupCommand) Run(a *app) error {
	info, err := verifyBackups(a, c.Files)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "every checksum is right; the last one: %s\n", describeBackup(info))
	return err
}

func verifyBackups(a *app, paths []string) (*brock.BackupInfo, error) {
	return withBackups(a, "verify backup", paths, brock.VerifyBackup)
}

// withBackups calls fn with what is in the files, one after the other.
func withBackups(a *app, name string, paths []string, fn func(context.Context, io.Reader) (*brock.BackupInfo, error)) (_ *brock.BackupInfo, err error) {
	var parts []io.Reader
	total := int64(0)
	for _, path := range paths {
		if path == "-" {
			parts, total = append(parts, a.in), -1
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it is only read
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			return nil, wrongUsage("%s is a directory, and no backup in a file; for a repository there is brock repository", path)
		}
		if err == nil && total >= 0 {
			total += info.Size()
		}
		parts = append(parts, f)
	}
	work := a.progress.Start(name, max(total, 0))
	defer work.End()
	info, err := fn(a.ctx, &counted{io.MultiReader(parts...), work})
	if errors.Is(err, brock.ErrCorrupt) || errors.Is(err, brock.ErrForeign) || errors.Is(err, brock.ErrFormat) {
		err = inFile(a.ctx, paths, err)
	}
	return info, err
}

// inFile adds the name of the first file that is not a sound backup to the error, if there is one.
func inFile(ctx context.Context, paths []string, failure error) error {
	wrong := func(path string) bool {
		f, err := os.Open(path)
		if err != nil {
			return false // such as -
		}
		defer func() { _ = f.Close() }() // it is only read
		_, err = brock.VerifyBackup(ctx, f)
		return err != nil && ctx.Err() == nil
	}
	if i := slices.IndexFunc(paths, wrong); i >= 0 {
		return fmt.Errorf("%s: %w", paths[i], failure)
	}
	return failure
}

// counted tells the progress of what is read.
type counted struct {
	r    io.Reader
	work *progress.Work
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.work.Add(int64(n))
	return n, err
}
