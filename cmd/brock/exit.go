package main

import (
	"errors"

	"github.com/brockdb/brock"
)

// The exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3 // a key or keyspace, not a store
	exitCorrupt  = 4
	exitInUse    = 5
)

// errUsage is a command line that parses and still makes no sense.
var errUsage = errors.New("wrong usage")

func exitCode(err error) int {
	for _, c := range []struct {
		err  error
		code int
	}{
		{brock.ErrCorrupt, exitCorrupt},
		{brock.ErrLocked, exitInUse},
		{brock.ErrKeyNotFound, exitNotFound},
		{brock.ErrKeyspaceNotFound, exitNotFound},
		{errUsage, exitUsage},
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return exitFailed
}
