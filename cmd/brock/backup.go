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
	To         string   `arg:"" optional:"" help:"A new file, or - for standard output. Leave it out with --repository."`
	Since      string   `help:"Write an increment: only what is new since the backup in this file. That is read and checked first." placeholder:"FILE"`
	Keyspace   []string `sep:"none" help:"Only this keyspace; may be given more than once. --keyspace= means the default one. Nothing of others is in the backup." placeholder:"NAME"`
	Plain      bool     `help:"Of an encrypted store: write the backup in clear. brock restore makes a plain store of it, without keys. An increment wants a --since that is plain, too."`
	Compress   bool     `help:"Compress the file by zstd."`
	Repository string   `help:"Write to the repository in this directory instead of a file. It keeps many backups, of one store or more. It is made if there is none." placeholder:"DIR"`
	Scratch    string   `help:"With --repository: directory for a checkpoint of the store, removed at the end; default: the store's name with .backup-scratch. On another disk it takes as much space as the store." placeholder:"DIR"`
	JSON       bool     `help:"With --repository: print JSON."`
}

// Run writes a backup to a file, or to a repository.
func (c *backupCommand) Run(a *app) error {
	switch {
	case (c.To == "") == (c.Repository == ""):
		return wrongUsage("backup wants either a new file or --repository")
	case c.Repository != "" && (c.Since != "" || c.Compress || c.Plain || len(c.Keyspace) > 0):
		return wrongUsage("--since, --keyspace, --plain and --compress are for a backup to a file")
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
		_, err = fmt.Fprintf(a.out, "backup %s of version %d: %s in %d files, of which %s in %d are new\n", done.ID, done.Version,
			human.Bytes(done.Bytes), done.Files, human.Bytes(done.PutBytes), done.PutFiles)
		return err
	})
}

// toFile writes a backup. A file has its name once it is complete and synced.
func (c *backupCommand) toFile(a *app) error {
	o := brock.BackupOptions{Compress: c.Compress, Keyspaces: c.Keyspace, Plain: c.Plain}
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
	prepare, sent := a.portion("prepare"), a.portion("backup")
	o.Progress = func(p brock.BackupProgress) {
		if p.Total == 0 && p.ToPrepare > 0 {
			prepare.done(p.Prepared, p.ToPrepare)
			return
		}
		prepare.end()
		sent.done(p.Bytes, p.Total)
	}
	defer prepare.end()
	defer sent.end()
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
	if i.Keyspaces != nil {
		kind += fmt.Sprintf(" of the keyspaces %q", i.Keyspaces)
	}
	return fmt.Sprintf("%s as of version %d, with %d of %d files", kind, i.Version, i.Sent, i.Files)
}
