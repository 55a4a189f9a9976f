package main

import (
	"fmt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/repository"
)

type backupCommand struct {
	store
	Repository string `required:"" help:"Directory that keeps the backups, of this store and others. It is made if there is none." placeholder:"DIR"`
	Scratch    string `help:"Directory for what is needed meanwhile; default: the store's name and .backup. On another disk it takes the space of the store." placeholder:"DIR"`
	JSON       bool   `help:"Print JSON."`
}

// Run stores what has changed since the backup before.
func (c *backupCommand) Run(a *app) error {
	return c.change(a, func(db *brock.DB) error {
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
