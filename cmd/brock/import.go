package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type importCommand struct {
	Peer   string `arg:"" enum:"badger4,badger3,badger2,badger1,bbolt,leveldb,pebble" help:"The engine of the source: badger4, badger3, badger2, badger1, bbolt, leveldb or pebble."`
	Source string `arg:"" help:"Directory of the source; the file of bbolt. Nothing is written to it, and no process may have it open."`
	store

	SourceValueDir string `help:"Directory of Badger's value log, if it has one of its own." placeholder:"DIR"`
	SourceKeyFile  string `help:"File with the key of an encrypted store of Badger, as its own tool takes it." placeholder:"FILE"`
	History        bool   `help:"All versions and deletes of Badger under their own versions, not only the newest pairs. It takes the disk space of all versions once more meanwhile."`
	Keyspace       string `help:"Keyspace for the pairs, in place of the default one. The store may have others by then, but no pairs in this one. Neither of bbolt, whose buckets become keyspaces, nor with --history." placeholder:"NAME"`
	Verify         bool   `help:"Import nothing: compare source and store, pair by pair."`
}

// Run makes a store of one of another engine, and compares the two. Run again, it goes on with an
// import that was interrupted.
func (c *importCommand) Run(a *app) error {
	command := "import"
	if c.Verify {
		command = "compare"
	}
	args := flags(command, "--source-value-dir", c.SourceValueDir, "--source-key-file", c.SourceKeyFile, "--keyspace", c.Keyspace)
	if c.History {
		args = append(args, "--history")
	}
	return runPeers(a, append(append(args, c.flags()...), "--", c.Peer, c.Source, c.Dir))
}

// flags returns the flags by which another program is told how to open the store.
func (s *store) flags() []string {
	return flags("", "--value-dir", s.ValueDir, "--key-file", s.KeyFile)[1:]
}

// flags returns a command and those of its flags that have a value.
func flags(command string, pairs ...string) []string {
	args := []string{command}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			args = append(args, pairs[i]+"="+pairs[i+1])
		}
	}
	return args
}

// peersProgram reads the stores of other engines. It is not part of brock, as their libraries are
// many times as large as the rest of it.
const peersProgram = "brock-peers"

// peersEnv names the program, if it is neither beside brock nor in PATH.
const peersEnv = "BROCK_PEERS"

// findPeers returns the path of the program.
func findPeers() (string, error) {
	if path := os.Getenv(peersEnv); path != "" {
		return path, nil
	}
	name := peersProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %s has the libraries of other engines, and was not found; it comes by: go install github.com/brockdb/brock/importers/cmd/%s@latest", name, peersProgram)
	}
	return path, nil
}

// runPeers runs the program, and returns an error with its exit code.
func runPeers(a *app, args []string) error {
	path, err := findPeers()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(a.ctx, path, args...)
	// Interrupted, it ends in order. A terminal sends the signal to it, too.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, a.out, a.err
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	// It has said what is wrong.
	switch exit.ExitCode() {
	case exitUsage:
		return silent{usageError{"brock help"}} // which it names
	case exitCorrupt:
		return silent{brock.ErrCorrupt}
	case exitInUse:
		return silent{brock.ErrLocked}
	case exitInput:
		return silent{pairs.ErrInput}
	case exitInterrupted:
		return silent{context.Canceled}
	}
	return silent{err}
}
