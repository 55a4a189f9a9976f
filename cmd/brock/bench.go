package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/owndata"
)

type benchCommand struct {
	readable
	keyspaceFlag
	Scratch string        `help:"Make the scratch store below this directory; default: beside the store, on the same disk." placeholder:"DIR"`
	Time    time.Duration `default:"2s" help:"How long each step takes."`
	Seed    uint64        `help:"Seed of what is drawn; 0 = draw one."`
	JSON    bool          `help:"Print the report as JSON."`
}

// benchReport is what bench has measured, as JSON.
type benchReport struct {
	Seed   uint64           `json:"seed"`
	Sample owndata.Sample   `json:"sample"`
	Steps  []owndata.Result `json:"steps"`
}

// Run only reads the store. What it writes goes to a scratch store.
func (c *benchCommand) Run(a *app) error {
	if c.Time <= 0 {
		return wrongUsage("--time is not positive")
	}
	report := benchReport{Seed: cmp.Or(c.Seed, rand.Uint64N(1<<32))}
	scratch := c.Scratch
	if scratch == "" {
		dir, err := filepath.Abs(cmp.Or(c.ValueDir, c.Dir))
		if err != nil {
			return err
		}
		scratch = filepath.Dir(dir)
	}
	err := c.read(a, func(db *brock.DB) error {
		ks, err := c.find(db)
		if err != nil {
			return err
		}
		report.Sample, err = owndata.Run(a.ctx, owndata.Config{
			DB: db, Keyspace: ks, Scratch: scratch, Time: c.Time, Seed: report.Seed,
			Done: func(r owndata.Result) {
				report.Steps = append(report.Steps, r)
				if !c.JSON {
					fmt.Fprintln(a.out, r)
				}
			},
		})
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(a.out, report)
	}
	s := report.Sample
	from := "of all keys"
	if s.Places > 0 {
		from = fmt.Sprintf("from %s parts of the key range", human.Count(int64(s.Places)))
	}
	fmt.Fprintf(a.out, "\nKeys: %s, drawn %s (--seed %d); about %s of keys and values in all. The store was only\n"+
		"read: what was in the system's cache came from memory, the rest from the disk. Sets wrote the\n"+
		"same pairs to new stores in %s, which are removed.\n", human.Count(int64(s.Keys)), from, report.Seed, human.Bytes(s.Store), scratch)
	return nil
}
