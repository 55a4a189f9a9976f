package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/brockdb/brock/internal/dump"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/segment"
)

type inspectCommand struct {
	Path     string `arg:"" help:"Directory of a store; or SUPER, MANIFEST-nnnnnn, KEYS-nnnnnn, nnnnnn.log, nnnnnn.val or nnnnnn.run: the name tells the format."`
	ValueDir string `help:"Directory of the value segments, if the store has one of its own." placeholder:"DIR"`
	keyFlag
}

// Run shows damage as what it would mean; verify finds it. It takes no lock.
func (c *inspectCommand) Run(a *app) error {
	if info, err := os.Stat(c.Path); err != nil || info.IsDir() {
		if err != nil {
			return err
		}
		out := bufio.NewWriter(a.out)
		return errors.Join(inspectDirectory(out, c.Path, c.ValueDir, c.provider()), out.Flush())
	}
	name, ok := filename.Parse(filepath.Base(c.Path))
	if !ok {
		return wrongUsage("%s: not the name of a store's file", c.Path)
	}
	content, err := os.ReadFile(c.Path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.out)
	return errors.Join(inspect(out, name.Kind, content), out.Flush())
}

func inspect(w io.Writer, kind filename.Kind, content []byte) error {
	d := dump.New(w, content, 0)
	switch kind {
	case filename.Super:
		manifest.DumpSuper(d, content)
	case filename.Manifest:
		manifest.Dump(d, content)
	case filename.Journal, filename.Value:
		segment.Dump(d, content)
	case filename.Remap:
		segment.DumpRemap(d, content)
	case filename.Run:
		return run.Dump(w, content, nil)
	case filename.Keyring:
		keyring.Dump(d, content)
	case filename.Lock:
		d.Bytes(0, len(content), "held last by")
	}
	return d.Close()
}
