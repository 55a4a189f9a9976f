package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

type inspectCommand struct {
	Path     string `arg:"" help:"Directory of a store; or SUPER, MANIFEST-nnnnnn, KEYS-nnnnnn, nnnnnn.log, nnnnnn.val or nnnnnn.run: the name tells the format. Of an encrypted run, --key-file shows the contents, if KEYS-nnnnnn of its store lies beside it."`
	ValueDir string `help:"Directory of the value segments, if the store has one of its own." placeholder:"DIR"`
	keyFlag
}

// Run shows what the bytes mean, also damaged ones; verify finds damage. It takes no lock.
func (c *inspectCommand) Run(a *app) error {
	if info, err := os.Stat(c.Path); err != nil || info.IsDir() {
		if err != nil {
			return err
		}
		out := bufio.NewWriter(a.out)
		return errors.Join((&store{Dir: c.Path, ValueDir: c.ValueDir, keyFlag: c.keyFlag}).list(out), out.Flush())
	}
	name, ok := filename.Parse(filepath.Base(c.Path))
	if !ok {
		return wrongUsage("%s: not the name of a store's file", c.Path)
	}
	content, err := os.ReadFile(c.Path)
	if err != nil {
		return err
	}
	ring, failure := c.keysOf(name.Kind, content)
	out := bufio.NewWriter(a.out)
	return errors.Join(inspect(out, name.Kind, content, ring), out.Flush(), failure)
}

// keysOf returns the data keys of an encrypted run. They are in the keyring of its store, in the
// same directory. It returns nil for all other files: these are shown without keys.
func (c *inspectCommand) keysOf(kind filename.Kind, content []byte) (*crypt.Ring, error) {
	if kind != filename.Run {
		return nil, nil
	}
	uuid, isEncrypted := run.StoreOf(content)
	switch {
	case !isEncrypted:
		return nil, nil
	case c.provider() == nil:
		return nil, encrypted{c.Path, brock.ErrKey}
	}
	k, err := keyring.Open(keyring.Options{FS: vfs.OS(), Dir: filepath.Dir(c.Path), UUID: uuid, Keys: c.provider()})
	if err != nil {
		return nil, fmt.Errorf("%s is encrypted, and must lie beside the keyring of its store, or a copy of that: %w", c.Path, err)
	}
	return k.Ring(), nil
}

func inspect(w io.Writer, kind filename.Kind, content []byte, ring *crypt.Ring) error {
	d := dump.New(w, content, 0)
	switch kind {
	case filename.Super:
		manifest.DumpSuper(d, content)
	case filename.Manifest:
		manifest.DumpManifest(d, content)
	case filename.Journal, filename.Value:
		segment.DumpSegment(d, content)
	case filename.Forwarding:
		segment.DumpForwarding(d, content)
	case filename.Run:
		return run.Dump(w, content, ring)
	case filename.Keyring:
		keyring.Dump(d, content)
	case filename.Lock:
		d.Bytes(0, len(content), "held last by")
	}
	return d.Close()
}
