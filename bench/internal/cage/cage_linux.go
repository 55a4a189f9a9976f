package cage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	unifiedRoot = "/sys/fs/cgroup"
	memoryRoot  = "/sys/fs/cgroup/memory" // of version 1
	dropFile    = "/proc/sys/vm/drop_caches"
)

// Cage is a cgroup. Its processes get no more memory than the limit, and no swap
// where the kernel counts that.
type Cage struct{ dir string }

// New makes a cage with a limit in bytes.
func New(limit int64) (*Cage, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it takes root", ErrUnavailable)
	}
	name := cageName()
	text := strconv.FormatInt(limit, 10)
	if controllers, err := os.ReadFile(filepath.Join(unifiedRoot, "cgroup.controllers")); err == nil && strings.Contains(string(controllers), "memory") {
		// The root may have given the controller to its children already.
		given := os.WriteFile(filepath.Join(unifiedRoot, "cgroup.subtree_control"), []byte("+memory"), 0)
		return newCage(filepath.Join(unifiedRoot, name), given, setting{"memory.max", text, true}, setting{"memory.swap.max", "0", false})
	}
	if _, err := os.Stat(filepath.Join(memoryRoot, "memory.limit_in_bytes")); err == nil {
		return newCage(filepath.Join(memoryRoot, name), nil,
			setting{"memory.limit_in_bytes", text, true}, setting{"memory.memsw.limit_in_bytes", text, false})
	}
	return nil, fmt.Errorf("%w: no memory controller below %s", ErrUnavailable, unifiedRoot)
}

// setting is a file of a cgroup, and whether it must be there.
type setting struct {
	file, text string
	must       bool
}

func newCage(dir string, before error, settings ...setting) (*Cage, error) {
	c := &Cage{dir}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for _, s := range settings {
		if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0); err != nil && s.must {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, before)), c.Remove())
		}
	}
	return c, nil
}

// Add puts a process into the cage. What it used before stays where it is counted.
func (c *Cage) Add(pid int) error {
	return os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// Remove ends the cage, and what still runs in it. The kernel may take a moment to
// see that it has ended.
func (c *Cage) Remove() error {
	var err error
	for range 50 {
		procs, _ := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
		for _, text := range strings.Fields(string(procs)) {
			if pid, err := strconv.Atoi(text); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if err = os.Remove(c.dir); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func cageName() string { return fmt.Sprintf("brock-bench-%d", os.Getpid()) }

// Clean removes the cage of this process, if there is one, when the process is
// interrupted.
func Clean() {
	for _, root := range []string{unifiedRoot, memoryRoot} {
		c := Cage{filepath.Join(root, cageName())}
		if _, err := os.Stat(c.dir); err == nil {
			c.Remove()
		}
	}
}

// DropCaches writes out what is dirty and empties the page cache of the machine.
func DropCaches() error {
	syscall.Sync()
	return os.WriteFile(dropFile, []byte("3"), 0)
}
