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
	o.KeysOnly = true
	var n, read int64
	work := a.progress.Start("count", 0)
	err = c.read(a, func(db *brock.DB) error {
		return c.view(a, db, func(txn *brock.Txn) error {
			for item, err := range txn.Items(o) {
				if err != nil {
					return err
				}
				n++
				if read += int64(len(item.Key())); n%1024 == 0 {
					work.Add(read)
					read = 0
				}
			}
			return nil
		})
	})
	work.End()
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, n)
	return nil
}
