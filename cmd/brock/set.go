package main

import (
	"io"
	"time"

	"github.com/brockdb/brock"
)

type setCommand struct {
	store
	Key   string `arg:"" help:"The key."`
	Value string `arg:"" help:"The value; - reads it from standard input."`
	keySyntax
	keyspaceFlag
	TTL  time.Duration `name:"ttl" help:"Time to live, such as 90s or 24h."`
	Meta uint8         `help:"The application's byte, 0 to 255."`
}

// Run returns when the pair is durable.
func (c *setCommand) Run(a *app) error {
	key, err := c.key(c.Key)
	if err != nil {
		return err
	}
	value := []byte(c.Value)
	if c.Value == "-" {
		if value, err = io.ReadAll(a.in); err != nil {
			return err
		}
	}
	return c.make(a, func(db *brock.DB) error {
		ks, err := c.find(db)
		if err != nil {
			return err
		}
		return db.Update(func(txn *brock.Txn) error {
			return txn.In(ks).SetEntry(brock.NewEntry(key, value).WithMeta(c.Meta).WithTTL(c.TTL))
		})
	})
}
