package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"A command, such as: keyspaces create."`
}

// Run shows what brock COMMAND --help shows.
func (c *helpCommand) Run(a *app) error {
	if _, err := a.parser.Parse(append(c.Command, "--help")); err != nil {
		return wrongUsage("no command %q (see brock help)", strings.Join(c.Command, " "))
	}
	return nil
}

// versionFlag is --version, wherever it stands.
type versionFlag bool

// BeforeReset prints the version and ends the program.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	info, _ := debug.ReadBuildInfo()
	b := newBuild(info)
	if _, err := fmt.Fprintf(k.Stdout, "brock %s, format %s, %s, %s\n", b.Version, b.Format, b.Go, b.Platform); err != nil {
		return err
	}
	k.Exit(exitOK)
	return nil
}
