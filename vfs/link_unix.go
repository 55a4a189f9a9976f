//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// link makes to one more name of the file from.
func link(from, to place) error {
	err := from.at(func(a int, old string) error {
		return to.at(func(b int, new string) error { return unix.Linkat(a, old, b, new, 0) })
	})
	if err != nil {
		return &os.LinkError{Op: "link", Old: from.path, New: to.path, Err: err}
	}
	return nil
}

// at calls fn with the descriptor of the directory and the name in it.
func (p place) at(fn func(fd int, name string) error) error {
	if p.dir == nil {
		return fn(unix.AT_FDCWD, p.path)
	}
	return withFD(p.dir.self, func(fd int) error { return fn(fd, p.base()) })
}

// withFD calls fn with the descriptor of f, which can't be closed meanwhile,
// and again when a signal interrupted it.
func withFD(f *os.File, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	// Not f.Fd(): the number could be closed, and given to another file, between the two calls.
	failed := c.Control(func(fd uintptr) {
		for {
			if err = fn(int(fd)); err != unix.EINTR {
				return
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}
