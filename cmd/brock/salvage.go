package main

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock"
)

type salvageCommand struct {
	Dir      string `arg:"" help:"Directory of the damaged store."`
	To       string `arg:"" help:"Directory of the new store. It must not exist."`
	ValueDir string `help:"Directory of the journal and the value segments, if the store has one of its own." placeholder:"DIR"`
	keyFlag
	JSON bool `help:"Print a line of JSON for each loss, then one with what the new store has."`
}

// salvaged is what a new store has, as JSON.
type salvaged struct {
	Keys    uint64 `json:"keys"`
	Found   uint64 `json:"found"` // of them, those that no run had any more
	Version uint64 `json:"version"`
	Losses  int    `json:"losses"`
}

// Run makes a new store of what can be read, and lists what can't on standard output.
func (c *salvageCommand) Run(a *app) error {
	work := a.progress.Start("salvage", 0)
	sum, err := brock.Salvage(a.ctx, brock.Options{Dir: c.Dir, ValueDir: c.ValueDir, Keys: c.provider()}, brock.Options{Dir: c.To, Keys: c.provider()}, func(damage *brock.CorruptionError) {
		a.problem(damage, c.JSON)
	})
	work.End()
	if errors.Is(err, brock.ErrNotExist) {
		return absentStore(c.Dir, err)
	}
	if err != nil {
		return c.missing(c.Dir, err)
	}
	if c.JSON {
		err = writeLine(a.out, salvaged{sum.Keys, sum.Found, sum.Version, sum.Losses})
	} else {
		_, err = fmt.Fprintf(a.out, "%s is a store with %d keys as of version %d\n", c.To, sum.Keys, sum.Version)
		if err == nil && sum.Losses == 0 {
			_, err = fmt.Fprintln(a.out, "nothing was lost")
		}
	}
	if err == nil && sum.Losses > 0 {
		err = silent{brock.ErrCorrupt}
	}
	return err
}
