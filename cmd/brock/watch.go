package main

import (
	"bufio"
	"errors"
	"unicode/utf8"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type watchCommand struct {
	store
	Since    string   `help:"Begin behind this position, as a line of watch has printed it. Without it, begin now." placeholder:"POSITION"`
	Snapshot bool     `help:"First all pairs as of one version, as changes that set them."`
	Once     bool     `help:"End when nothing newer is there, and don't wait for more."`
	Keys     bool     `help:"Keys only. Values are not read."`
	Keyspace []string `help:"Only changes in this keyspace; --keyspace= means the default one. May be given several times." placeholder:"NAME"`
	Prefix   []string `help:"Only changes of keys that begin with this. May be given several times." placeholder:"KEY"`
	keySyntax
}

// watchLine is a change as JSON, or the end of a commit, which has its position.
type watchLine struct {
	Version     uint64      `json:"version"`
	Change      string      `json:"change,omitempty"`
	Keyspace    string      `json:"keyspace,omitempty"`
	KeyspaceB64 []byte      `json:"keyspaceB64,omitempty"`
	Pair        *pairs.Pair `json:"pair,omitempty"`
	UpTo        *pairs.Pair `json:"upTo,omitempty"` // of a range delete: its upper bound, exclusive
	Snapshot    bool        `json:"snapshot,omitempty"`
	Position    string      `json:"position,omitempty"`
}

// Run prints a line of JSON for each change, and one behind each commit with its position. It follows
// the store: the program that has it open goes on.
func (c *watchCommand) Run(a *app) error {
	o := brock.WatchOptions{Snapshot: c.Snapshot, KeysOnly: c.Keys}
	if c.Since != "" {
		if c.Snapshot {
			return wrongUsage("--snapshot begins anew, so it can't be given with --since")
		}
		var err error
		if o.After, err = brock.ParsePosition(c.Since); err != nil {
			return wrongUsage("--since %s: not a position that watch has printed", c.Since)
		}
	}
	for _, p := range c.Prefix {
		key, err := c.key(p)
		if err != nil {
			return err
		}
		o.Prefixes = append(o.Prefixes, key)
	}
	return c.copied(a, func(db *brock.DB) error {
		for _, name := range c.Keyspace {
			var ks *brock.Keyspace // nil: the default one
			if name != "" {
				var err error
				if ks, err = db.Keyspace(name); err != nil {
					return err
				}
			}
			o.Keyspaces = append(o.Keyspaces, ks)
		}
		return c.print(a, db, o)
	})
}

func (c *watchCommand) print(a *app, db *brock.DB, o brock.WatchOptions) error {
	out := bufio.NewWriter(a.out)
	for commit, err := range db.Watch(a.ctx, o) {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		for change, err := range commit.Changes() {
			if err == nil {
				err = c.printChange(out, commit, change)
			}
			if err != nil {
				return errors.Join(err, out.Flush())
			}
		}
		// Flushed here: whoever reads the lines has whole commits, as soon as they are there.
		line := watchLine{Version: commit.Version, Snapshot: commit.Snapshot, Position: commit.Position().String()}
		if err := errors.Join(writeLine(out, line), out.Flush()); err != nil {
			return err
		}
		if c.Once && commit.Caught {
			return nil
		}
	}
	return nil
}

func (c *watchCommand) printChange(out *bufio.Writer, commit *brock.Commit, change *brock.Change) error {
	line := watchLine{Version: commit.Version, Change: change.Kind.String(), Snapshot: commit.Snapshot}
	if utf8.ValidString(change.Keyspace) {
		line.Keyspace = change.Keyspace
	} else {
		line.KeyspaceB64 = []byte(change.Keyspace)
	}
	switch change.Kind {
	case brock.ChangeSet, brock.ChangeDelete, brock.ChangeDeleteRange:
		line.Pair = &pairs.Pair{Key: change.Key, Meta: change.Meta, Expires: change.ExpiresAt}
	}
	if change.Kind == brock.ChangeSet && !c.Keys {
		value, err := change.Value()
		if err != nil {
			return err
		}
		line.Pair.Value = value
	}
	if change.Upper != nil {
		line.UpTo = &pairs.Pair{Key: change.Upper}
	}
	return writeLine(out, line)
}
