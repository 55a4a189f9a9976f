package main

import (
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type exportCommand struct {
	readable
	Path          string  `arg:"" default:"-" help:"A new file of JSON lines, or - for standard output."`
	Keyspace      *string `help:"Only the pairs of this keyspace; --keyspace= means the default one. Without it, the pairs of all keyspaces." placeholder:"NAME"`
	History       bool    `help:"All versions of each key that are kept, deletes included, in the order of their commits: load --history reads them. They are sorted in the directory for temporary files, which needs as much space. Not with --bbolt."`
	Bbolt         string  `help:"Write a new bbolt file instead, all keyspaces as buckets." placeholder:"FILE"`
	DefaultBucket string  `help:"Bucket for the pairs of the default keyspace in a bbolt file; default: default." placeholder:"NAME"`
}

// Run writes what one transaction sees. An existing file is not touched.
func (c *exportCommand) Run(a *app) error {
	if c.Bbolt == "" {
		if c.DefaultBucket != "" {
			return wrongUsage("--default-bucket is for a bbolt file: name it by --bbolt")
		}
		d := dumping{app: a, name: "export", only: c.Keyspace, format: pairs.JSONL, full: true, every: c.History}
		return d.write(&c.readable, c.Path)
	}
	if c.Path != "-" || c.Keyspace != nil || c.UpTo || c.History {
		return wrongUsage("a bbolt file gets all keyspaces of a sound store: with --bbolt go --default-bucket, --value-dir and --key-file only")
	}
	args := flags("export", "--default-bucket", c.DefaultBucket)
	return runPeers(a, append(append(args, c.store.flags()...), "--", c.Dir, c.Bbolt))
}
