package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/keyring"
)

// keyFlag is the flag of commands that open or make a store.
type keyFlag struct {
	KeyFile string `help:"Key file of an encrypted store. A new store is encrypted with it." placeholder:"FILE" env:"BROCK_KEY_FILE"`
}

// provider returns the value for Options.Keys; nil without the flag.
func (k keyFlag) provider() brock.KeyProvider {
	if k.KeyFile == "" {
		return nil
	}
	return brock.KeyFile(k.KeyFile)
}

// missing explains err if it is ErrKey and no key file was named: what is encrypted.
func (k keyFlag) missing(what string, err error) error {
	if k.KeyFile == "" && errors.Is(err, brock.ErrKey) {
		return encrypted{what, err}
	}
	return err
}

// usable returns an error if the key file can't wrap a key. Call it before a store is made.
func (k keyFlag) usable(ctx context.Context) error {
	if k.KeyFile == "" {
		return nil
	}
	_, err := k.provider().WrapKey(ctx, make([]byte, 32), nil)
	return err
}

type keygenCommand struct {
	File string `arg:"" help:"Key file. It is made if there is none."`
	Name string `arg:"" optional:"" help:"Name of the new key; without one, the time."`
}

// Run adds a key. The ones that are there stay: they open what they have wrapped.
func (c *keygenCommand) Run(a *app) error {
	name := c.Name
	if name == "" {
		name = time.Now().UTC().Format("20060102T150405.000Z")
	}
	if err := keyring.AppendMasterKey(c.File, name); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s: %s is the current key; without this file nobody opens what it encrypts\n", c.File, name)
	return err
}
