package main

import (
	"fmt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

type delCommand struct {
	store
	Keys []string `arg:"" optional:"" name:"key" help:"The keys."`
	bounds
	All    bool `help:"All keys."`
	DryRun bool `help:"Only say how many pairs would be deleted."`
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
	o, err := c.options()
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.read(a, func(db *brock.DB) error {
			return c.view(a, db, func(txn *brock.Txn) error { return c.would(a, txn, o) })
		})
	}
	return c.change(a, func(db *brock.DB) error {
		ks, err := c.find(db)
		if err != nil {
			return err
		}
		if len(c.Keys) > 0 {
			return db.Update(func(txn *brock.Txn) error { return c.delete(txn.In(ks)) })
		}
		return c.deleteRange(a, db, ks, o)
	})
}

// would says how many pairs there are to delete.
func (c *delCommand) would(a *app, txn *brock.Txn, o brock.IteratorOptions) (err error) {
	n := int64(len(c.Keys))
	if n > 0 {
		err = c.each(txn, func([]byte) error { return nil })
	} else {
		n, err = countPairs(a, txn, o)
	}
	if err == nil {
		_, err = fmt.Fprintf(a.out, "%s would be deleted\n", human.Things(n, "pair"))
	}
	return err
}

// deleteRange deletes a range, and says how many pairs it had. They are counted ahead of the
// transaction that deletes them: this process alone has the store open.
func (c *delCommand) deleteRange(a *app, db *brock.DB, ks *brock.Keyspace, o brock.IteratorOptions) error {
	lower, upper, err := c.interval()
	if err != nil {
		return err
	}
	var n int64
	err = db.ViewContext(a.ctx, brock.TxnOptions{}, func(txn *brock.Txn) (err error) {
		n, err = countPairs(a, txn.In(ks), o)
		return err
	})
	if err != nil {
		return err
	}
	if err := db.Update(func(txn *brock.Txn) error { return txn.In(ks).DeleteRange(lower, upper) }); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s deleted\n", human.Things(n, "pair"))
	return nil
}

func (c *delCommand) delete(txn *brock.Txn) error { return c.each(txn, txn.Delete) }

// each calls fn with each of the keys, which must be there.
func (c *delCommand) each(txn *brock.Txn, fn func(key []byte) error) error {
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
		if err := fn(key); err != nil {
			return err
		}
	}
	return nil
}
