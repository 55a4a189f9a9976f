package main

import (
	"fmt"

	"github.com/brockdb/brock"
)

type delCommand struct {
	store
	Keys []string `arg:"" name:"key" help:"The keys."`
	keySyntax
	keyspaceFlag
}

// Run deletes all the keys or, if one is absent, none.
func (c *delCommand) Run(a *app) error {
	return c.use(a, brock.Options{MustExist: true}, func(db *brock.DB) error {
		ks, err := c.find(db)
		if err != nil {
			return err
		}
		return db.Update(func(txn *brock.Txn) error { return c.delete(txn.In(ks)) })
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
