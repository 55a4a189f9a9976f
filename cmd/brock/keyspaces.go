package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type keyspacesCommand struct {
	List    keyspacesList    `cmd:"" default:"withargs" help:"List the names. The default keyspace has none."`
	Create  keyspacesCreate  `cmd:"" help:"Create a keyspace. Makes the store if there is none."`
	Drop    keyspacesDrop    `cmd:"" help:"Drop a keyspace, with all that is in it."`
	Options keyspacesOptions `cmd:"" help:"Show or change the options of a keyspace."`
}

type keyspacesList struct {
	readable
	JSON bool `help:"Print a line of JSON for each keyspace, with its options."`
}

// Run prints a line for each keyspace.
func (c *keyspacesList) Run(a *app) error {
	return c.read(a, func(db *brock.DB) error {
		for ks := range db.Keyspaces() {
			if !c.JSON {
				fmt.Fprintln(a.out, printable([]byte(ks.Name())))
				continue
			}
			if err := writeLine(a.out, pairs.SectionOf(ks)); err != nil {
				return err
			}
		}
		return nil
	})
}

// optionFlags are the options of a keyspace; those not named stay as they are.
type optionFlags struct {
	ValueThreshold *int           `help:"Bytes from which a value is stored out of the tree; -1 = only from 1 MiB." placeholder:"BYTES"`
	TTL            *time.Duration `name:"ttl" help:"Time to live of pairs that set none; 0 = for ever."`
	Versions       *int           `help:"Keep this many newest versions of each key."`
	KeepFor        *time.Duration `help:"Keep versions that were the newest within this time; 0 = none."`
	Compression    string         `enum:",none,s2,zstd" default:"" help:"Of values out of the tree: none, s2 or zstd." placeholder:"NAME"`
	CompressAbove  *int           `help:"Bytes from which compression is tried." placeholder:"BYTES"`
}

// apply changes what the flags name.
func (f *optionFlags) apply(o *brock.KeyspaceOptions) {
	if f.ValueThreshold != nil {
		o.ValueThreshold = *f.ValueThreshold
	}
	if f.TTL != nil {
		o.TTL = *f.TTL
	}
	if f.Versions != nil {
		o.Versions.Versions = *f.Versions
	}
	if f.KeepFor != nil {
		o.Versions.Age = *f.KeepFor
	}
	if f.CompressAbove != nil {
		o.CompressAbove = *f.CompressAbove
	}
	o.Compression = cmp.Or(pairs.CompressionOf(f.Compression), o.Compression)
}

// check returns an error for negative times: the library has another meaning for them.
func (f *optionFlags) check() error {
	for _, d := range []struct {
		name  string
		value *time.Duration
	}{{"--ttl", f.TTL}, {"--keep-for", f.KeepFor}} {
		if d.value != nil && *d.value < 0 {
			return wrongUsage("%s is negative", d.name)
		}
	}
	return nil
}

type keyspacesCreate struct {
	store
	Name string `arg:"" help:"The name, 1 to 255 bytes."`
	optionFlags
}

// Run refuses a keyspace that is there.
func (c *keyspacesCreate) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.make(a, func(db *brock.DB) error {
		if _, err := findKeyspace(db, c.Name); err == nil {
			return fmt.Errorf("keyspace %q exists (brock keyspaces options changes its options)", c.Name)
		}
		var o brock.KeyspaceOptions
		c.apply(&o)
		_, err := db.Keyspace(c.Name, exactly(o))
		return err
	})
}

type keyspacesDrop struct {
	store
	Name string `arg:"" help:"The name."`
}

// Run returns when the drop is durable.
func (c *keyspacesDrop) Run(a *app) error {
	return c.change(a, func(db *brock.DB) error {
		ks, err := findKeyspace(db, c.Name)
		if err != nil {
			return err
		}
		return ks.Drop(a.ctx)
	})
}

type keyspacesOptions struct {
	store
	Name string `arg:"" help:"The name."`
	optionFlags
}

// Run shows the options if none is named.
func (c *keyspacesOptions) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.optionFlags == (optionFlags{}) {
		return c.read(a, func(db *brock.DB) error {
			ks, err := findKeyspace(db, c.Name)
			if err != nil {
				return err
			}
			return writeLine(a.out, pairs.SectionOf(ks).Options)
		})
	}
	return c.change(a, func(db *brock.DB) error {
		ks, err := findKeyspace(db, c.Name)
		if err != nil {
			return err
		}
		o := ks.Options()
		c.apply(&o)
		return ks.SetOptions(exactly(o))
	})
}
