package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
	"github.com/brockdb/brock/vfs"
)

type backupCommand struct {
	store
	To       string `arg:"" help:"A new file, or - for standard output."`
	Since    string `help:"The backup before: only what is new is written, an increment. It is read and checked first." placeholder:"FILE"`
	Compress bool   `help:"Compress by zstd."`
}

// Run writes a backup. A file has its name once it is complete and synced.
func (c *backupCommand) Run(a *app) error {
	if c.To == "-" && a.terminal {
		return wrongUsage("a backup is no text: name a file, or send standard output to a program")
	}
	var o brock.BackupOptions
	if c.Since != "" {
		info, err := verifyBackups(a, []string{c.Since})
		if err != nil {
			return fmt.Errorf("%s: %w", c.Since, err)
		}
		o.Since = info
	}
	o.Compress = c.Compress
	return c.use(a, brock.Options{MustExist: true}, func(db *brock.DB) error {
		if c.To == "-" {
			_, err := c.send(a, db, a.out, o)
			return err
		}
		var info *brock.BackupInfo
		err := whole(c.To, func(w io.Writer) (err error) {
			info, err = c.send(a, db, w, o)
			return err
		})
		if err == nil {
			_, err = fmt.Fprintf(a.out, "%s: %s\n", c.To, describeBackup(info))
		}
		return err
	})
}

func (c *backupCommand) send(a *app, db *brock.DB, w io.Writer, o brock.BackupOptions) (*brock.BackupInfo, error) {
	var work *progress.Work
	done := int64(0)
	o.Progress = func(p brock.BackupProgress) {
		if work == nil {
			work = a.progress.Start("backup", p.Total)
		}
		work.Add(p.Bytes - done)
		done = p.Bytes
	}
	defer func() {
		if work != nil {
			work.End()
		}
	}()
	return db.Backup(a.ctx, w, o)
}

// whole makes a file of what fn writes: beside it under another name, until it is
// complete and synced. It returns fs.ErrExist if there is a file.
func whole(path string, fn func(w io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	err = fn(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = vfs.OS().Rename(f.Name(), path) // replaces nothing
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return vfs.OS().SyncDir(filepath.Dir(path))
}

func describeBackup(i *brock.BackupInfo) string {
	kind := "full backup"
	if i.Incremental {
		kind = "increment"
	}
	return fmt.Sprintf("%s as of version %d, with %d of %d files", kind, i.Version, i.Sent, i.Files)
}

type restoreCommand struct {
	Paths    []string `arg:"" name:"backup|dir" help:"Backups in the order in which they were made, a full one first, or - for standard input; then the directory of the new store, which must be empty or not exist."`
	ValueDir string   `help:"Directory for the journal and the value segments, if the store shall have one of its own." placeholder:"DIR"`
}

// Run makes a store of backups.
func (c *restoreCommand) Run(a *app) error {
	last := len(c.Paths) - 1
	if last < 1 {
		return wrongUsage("restore wants one backup or more, and the directory of the new store")
	}
	dir := c.Paths[last]
	info, err := withBackups(a, "restore", c.Paths[:last], func(ctx context.Context, r io.Reader) (*brock.BackupInfo, error) {
		return brock.Restore(ctx, r, brock.Options{Dir: dir, ValueDir: c.ValueDir})
	})
	if err != nil {
		return err
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
		if info, err := f.Stat(); err == nil && total >= 0 {
			total += info.Size()
		}
		parts = append(parts, f)
	}
	work := a.progress.Start(name, max(total, 0))
	defer work.End()
	return fn(a.ctx, &counted{io.MultiReader(parts...), work})
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
