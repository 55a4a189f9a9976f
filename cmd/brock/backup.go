package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

type backupCommand struct {
	store
	To         string `arg:"" optional:"" help:"A new file, or - for standard output. Leave it out with --repository."`
	Since      string `help:"Write an increment: only what is new since the backup in this file. That is read and checked first." placeholder:"FILE"`
	Compress   bool   `help:"Compress the file by zstd."`
	Repository string `help:"Write to the repository in this directory instead of a file. It keeps many backups, of one store or more. It is made if there is none." placeholder:"DIR"`
	Scratch    string `help:"With --repository: directory for a checkpoint of the store, removed at the end; default: the store's name with .backup-scratch. On another disk it takes as much space as the store." placeholder:"DIR"`
	JSON       bool   `help:"With --repository: print JSON."`
}

// Run writes a backup to a file, or to a repository.
func (c *backupCommand) Run(a *app) error {
	switch {
	case (c.To == "") == (c.Repository == ""):
		return wrongUsage("backup wants either a new file or --repository")
	case c.Repository != "" && (c.Since != "" || c.Compress):
		return wrongUsage("--since and --compress are for a backup to a file")
	case c.To != "" && (c.Scratch != "" || c.JSON):
		return wrongUsage("--scratch and --json are for a backup to a repository")
	case c.Repository != "":
		return c.toRepository(a)
	case c.To == "-" && a.terminal:
		return wrongUsage("a backup is no text: name a file, or send standard output to a program")
	}
	return c.toFile(a)
}

// toRepository stores what has changed since the backup before.
func (c *backupCommand) toRepository(a *app) error {
	return c.copied(a, func(db *brock.DB) error {
		p := a.portion("backup")
		defer p.end()
		done, err := repository.Backup(a.ctx, db, repository.Dir(nil, c.Repository), repository.Options{Scratch: c.Scratch, Progress: p.done})
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(a.out, done)
		}
		_, err = fmt.Fprintf(a.out, "backup %s of version %d: %s in %s, of which %s in %d are new\n", done.ID, done.Version,
			human.Bytes(done.Bytes), human.Things(int64(done.Files), "file"), human.Bytes(done.PutBytes), done.PutFiles)
		return err
	})
}

// toFile writes a backup. A file has its name once it is complete and synced.
func (c *backupCommand) toFile(a *app) error {
	o := brock.BackupOptions{Compress: c.Compress}
	if c.Since != "" {
		info, err := verifyBackups(a, []string{c.Since})
		if err != nil {
			return err
		}
		o.Since = info
	}
	return c.copied(a, func(db *brock.DB) error {
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
	sent := a.portion("backup")
	defer sent.end()
	o.Progress = func(p brock.BackupProgress) { sent.done(p.Bytes, p.Total) }
	return db.Backup(a.ctx, w, o)
}

// whole makes a file of what fn writes. The file has a temporary name in the same directory until
// it is complete and synced. whole returns fs.ErrExist if path exists.
func whole(path string, fn func(w io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	var made *fs.PathError
	if errors.As(err, &made) {
		return fmt.Errorf("make %s: %w", path, made.Err) // name path, not the temporary file
	}
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
	return fmt.Sprintf("%s as of version %d, with %d of %s", kind, i.Version, i.Sent, human.Things(int64(i.Files), "file"))
}
