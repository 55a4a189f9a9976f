package main

import (
	"fmt"

	"github.com/brockdb/brock"
)

type checkpointCommand struct {
	store
	To string `arg:"" help:"Directory of the copy. It must not exist."`
}

// Run makes a copy of the store that is a store, too.
func (c *checkpointCommand) Run(a *app) error {
	return c.copied(a, func(db *brock.DB) error {
		work := a.progress.Start("checkpoint", 0)
		defer work.End()
		if err := db.Checkpoint(a.ctx, c.To); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.out, "%s is a store as of version %d\n", c.To, db.Version())
		return err
	})
}
