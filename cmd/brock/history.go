package main

import (
	"fmt"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type historyCommand struct {
	readable
	Key string `arg:"" help:"The key."`
	keySyntax
	keyspaceFlag
	JSON bool `help:"Print a line of JSON for each version, exact and complete."`
}

// change is one version of a key, as JSON.
type change struct {
	Version uint64      `json:"version"`
	Deleted bool        `json:"deleted,omitempty"`
	Expired bool        `json:"expired,omitempty"` // by now
	Pair    *pairs.Pair `json:"pair,omitempty"`
}

// Run shows what the keyspace's options have kept, deletes and what has expired
// included.
func (c *historyCommand) Run(a *app) error {
	key, err := c.key(c.Key)
	if err != nil {
		return err
	}
	return c.read(a, func(db *brock.DB) error {
		return c.view(a, db, func(txn *brock.Txn) error {
			found := false
			for item, err := range txn.Versions(key) {
				if err == nil {
					found, err = true, c.print(a, item)
				}
				if err != nil {
					return err
				}
			}
			if !found {
				return fmt.Errorf("history of %q: %w", key, brock.ErrKeyNotFound)
			}
			return nil
		})
	})
}

func (c *historyCommand) print(a *app, item *brock.Item) error {
	h := change{Version: item.Version(), Deleted: item.Deleted()}
	h.Expired = !item.ExpiresAt().IsZero() && !item.ExpiresAt().After(time.Now())
	if c.JSON {
		if !h.Deleted {
			p, err := pairs.Of(item)
			if err != nil {
				return err
			}
			h.Pair = &p
		}
		return writeLine(a.out, h)
	}
	switch {
	case h.Deleted:
		_, err := fmt.Fprintf(a.out, "%d\tdeleted\n", h.Version)
		return err
	case h.Expired:
		fmt.Fprintf(a.out, "%d\texpired\t", h.Version)
	default:
		fmt.Fprintf(a.out, "%d\tset\t", h.Version)
	}
	return printValue(a.out, item)
}
