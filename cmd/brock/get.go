package main

import (
	"fmt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type getCommand struct {
	readable
	Key string `arg:"" help:"The key."`
	keySyntax
	keyspaceFlag
	JSON bool `help:"Print a line of JSON with key, value and attributes, instead of the raw value."`
}

// Run writes the value as it is: nothing is added to it.
func (c *getCommand) Run(a *app) error {
	key, err := c.key(c.Key)
	if err != nil {
		return err
	}
	return c.read(a, func(db *brock.DB) error {
		return c.view(a, db, func(txn *brock.Txn) error {
			item, err := txn.Get(key)
			if err != nil {
				return fmt.Errorf("get %q: %w", key, err)
			}
			pair, err := pairs.Of(item)
			if err != nil {
				return err
			}
			if c.JSON {
				return pairs.NewWriter(pairs.JSONL, a.out).Write(pair)
			}
			_, err = a.out.Write(pair.Value)
			return err
		})
	})
}
