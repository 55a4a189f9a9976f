package main

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

type rekeyCommand struct {
	store
	Rewrite    bool   `help:"Rewrite all files, so that nothing needs the older keys any more."`
	Master     bool   `help:"Make no new data key: wrap those that there are again, by the key file's current key."`
	NewKeyFile string `help:"Key file from now on." placeholder:"FILE"`
}

// Run gives the store a new data key.
func (c *rekeyCommand) Run(a *app) error {
	if c.Master && c.Rewrite {
		return wrongUsage("--master changes no data key: there is nothing to rewrite")
	}
	o := brock.RotateOptions{Rewrite: c.Rewrite, Master: c.Master, Keys: keyFlag{c.NewKeyFile}.provider()}
	return c.change(a, func(db *brock.DB) error {
		work := a.progress.Start("rekey", 0)
		defer work.End()
		err := db.RotateKey(a.ctx, o)
		if errors.Is(err, brock.ErrUnsupported) {
			return fmt.Errorf("%s is not encrypted: brock encrypt makes an encrypted store of it", c.Dir)
		}
		if err != nil {
			return err
		}
		text := "has a new data key for what is written from now on"
		switch {
		case c.Master:
			text = "has its data keys wrapped by the current key"
		case c.Rewrite:
			text = "has a new data key, and nothing is under an older one"
		}
		_, err = fmt.Fprintf(a.out, "%s %s\n", c.Dir, text)
		return err
	})
}

type encryptCommand struct {
	store
}

// Run makes an encrypted store of a plain one, and rewrites its files.
func (c *encryptCommand) Run(a *app) error {
	if c.KeyFile == "" {
		return wrongUsage("encrypt wants --key-file; brock keygen makes a key file")
	}
	work := a.progress.Start("encrypt", 0)
	defer work.End()
	err := brock.EncryptStore(a.ctx, brock.Options{Dir: c.Dir, ValueDir: c.ValueDir, Keys: c.provider(), KeyspaceDefaults: allVersions})
	switch super, unread := manifest.ReadSuper(vfs.OS(), c.Dir); {
	case errors.Is(err, brock.ErrNotExist):
		return absentStore(c.Dir, err)
	case errors.Is(err, brock.ErrKey) && unread == nil && super.Encrypted():
		return fmt.Errorf("%s is encrypted already: brock rekey changes its key", c.Dir)
	}
	if err != nil {
		return err
	}
	err = c.change(a, func(db *brock.DB) error { return db.RotateKey(a.ctx, brock.RotateOptions{Rewrite: true}) })
	if err != nil {
		return fmt.Errorf("%s is encrypted, but some files are still plain: brock rekey --rewrite goes on: %w", c.Dir, err)
	}
	_, err = fmt.Fprintf(a.out, "%s is encrypted; what was plain may be found on the disk until it is overwritten\n", c.Dir)
	return err
}
