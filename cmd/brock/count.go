package main

import (
	"fmt"

	"github.com/brockdb/brock"
)

type countCommand struct {
	readable
	bounds
	keyspaceFlag
}

// Run reads all keys in the bounds, but no values of segments. It prints a number.
func (c *countCommand) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.read(a, func(db *brock.DB) error {
		return c.view(a, db, func(txn *brock.Txn) error {
			n, err := countPairs(a, txn, o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, n)
			return err
		})
	})
}

// countPairs counts the pairs that an iterator shows.
func countPairs(a *app, txn *brock.Txn, o brock.IteratorOptions) (n int64, err error) {
	o.KeysOnly = true
	work := a.progress.Start("count", 0)
	defer work.End()
	read := int64(0)
	for item, err := range txn.Items(o) {
		if err == nil {
			err = a.ctx.Err()
		}
		if err != nil {
			return n, err
		}
		n++
		if read += int64(len(item.Key())); n%1024 == 0 {
			work.Add(read)
			read = 0
		}
	}
	return n, nil
}
