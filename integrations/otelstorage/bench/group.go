package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// group is a cgroup whose processes may take so much memory, with the page cache that they fill.
type group struct{ dir string }

// groupVariable tells a child which file it must write its number to before it begins.
const groupVariable = "BROCK_BENCH_GROUP"

// newGroup makes a cgroup, of version 2 or 1.
func newGroup(bytes int64) (*group, error) {
	name := "brock-otelstorage-" + strconv.Itoa(os.Getpid())
	var problems []error
	for _, kind := range []struct{ parent, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		g := &group{filepath.Join(kind.parent, name)}
		err := os.Mkdir(g.dir, 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(g.dir, kind.limit), strconv.AppendInt(nil, bytes, 10), 0o600)
		}
		if err == nil {
			return g, nil
		}
		_ = os.Remove(g.dir) // if it was made
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("make a cgroup: %w", errors.Join(problems...))
}

func (g *group) procs() string { return filepath.Join(g.dir, "cgroup.procs") }

// remove removes the cgroup, once the system has noticed that its process has ended.
func (g *group) remove() {
	for range 50 {
		if os.Remove(g.dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// joinGroup moves this process into the cgroup that its parent has made.
func joinGroup() error {
	procs := os.Getenv(groupVariable)
	if procs == "" {
		return nil
	}
	return os.WriteFile(procs, strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600)
}
