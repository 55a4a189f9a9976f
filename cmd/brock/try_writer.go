package main

import (
	"os"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/trial"
)

// tryWriterCommand is the process that try starts and kills.
type tryWriterCommand struct {
	store
	Round int
	Seed  uint64
}

// Run acknowledges commits on standard output, one system call each.
func (c *tryWriterCommand) Run(a *app) error {
	return trial.Write(a.ctx, brock.Options{Dir: c.Dir, ValueDir: c.ValueDir, Keys: c.provider()}, c.Round, c.Seed, os.Stdout)
}
