package main

import (
	"fmt"

	"github.com/brockdb/brock"
)

type delCommand struct {
	store
	Keys []string `arg:"" optional:"" name:"key" help:"The keys."`
	bounds
	All bool `help:"All keys."`
	keyspaceFlag
}

// Run deletes all the keys or, if one is absent, none; or a range, which may be empty.
func (c *delCommand) Run(a *app) error {
	ways := 0
	for _, given := range []bool{len(c.Keys) > 0, !c.none(), c.All} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return wrongUsage("del needs one of: keys; --prefix, --from or --to; --all")
	}
	lower, upper, err := c.interval()
	if err != nil {
		return err
	}
	return c.change(a, func(db *brock.DB) error {
		ks, err := c.find(db)
		if err != nil {
			return err
		}
		return db.Update(func(txn *brock.Txn) error {
			if len(c.Keys) > 0 {
				return c.delete(txn.In(ks))
			}
			return txn.In(ks).DeleteRange(lower, upper)
		})
	})
}

func (c *delCommand) delete(txn *brock.Txn) error {
	for _, k := range c.Keys {
		key, err := c.key(k)
		if err != nil {
			return err
		}
		switch found, err := txn.Has(key); {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("delete %q: %w; nothing was deleted", key, brock.ErrKeyNotFound)
		}
		if err := txn.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
