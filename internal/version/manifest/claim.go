package manifest

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// How the directories of a store are taken that is made from another one.

// CheckAbsent returns errs.ErrExist if there is something under the name of a directory.
func CheckAbsent(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(filepath.Clean(dir)) // "" is the directory of the process
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s must not be there", errs.ErrExist, dir)
	case isAbsent(err):
		return nil
	}
	return err
}

// Claim holds the directories of a store that is being made from another one: open, locked,
// and without a file of a store when they were claimed. So every file of a store that is in
// them at the end belongs to the new one.
type Claim struct {
	FS      vfs.Dirs // has the directories
	Options Options  // names the directories as Resolve has left them; its FS is FS

	base  vfs.FS      // file system outside of the directories, to make and remove them
	made  []string    // directories that were not there
	locks []io.Closer // of the directories, in their order
}

// NewClaim makes the directories of o, unless they exist, and locks them. open opens them,
// as FS.OpenDirs does. It returns errs.ErrExist if a directory is not empty (see checkEmpty), and
// a *errs.LockedError if somebody else has the lock. After an error it removes what it made,
// as far as that is possible.
func NewClaim(o Options, open func(dirs ...string) (vfs.Dirs, error)) (*Claim, error) {
	c := &Claim{base: o.FS, Options: o}
	if err := c.takeLocks(&c.Options, open); err != nil {
		return nil, c.releaseLocks(err)
	}
	return c, nil
}

// takeLocks makes the directories of o, opens them, and locks them. What it has taken before an
// error is in c, for releaseLocks.
func (c *Claim) takeLocks(o *Options, open func(dirs ...string) (vfs.Dirs, error)) (err error) {
	o.Resolve()
	for _, dir := range o.dirs() {
		// Before anything is made: a refused directory stays untouched.
		if err := o.checkEmpty(dir, c.base); err != nil {
			return err
		}
		if _, err := o.FS.Stat(dir); isAbsent(err) {
			c.made = append(c.made, dir)
		}
	}
	if err := MakeDirs(*o); err != nil {
		return err
	}
	if c.FS, err = open(o.dirs()...); err != nil {
		return err
	}
	o.FS = c.FS
	o.Resolve() // what was made or opened now may be one directory
	for _, dir := range o.dirs() {
		lock, err := c.FS.Lock(lockPath(dir), false)
		if err != nil {
			return err
		}
		// Until now another process may have been at work here.
		if err := o.checkEmpty(dir, c.base); err != nil {
			return errors.Join(err, lock.Close())
		}
		c.locks = append(c.locks, lock)
	}
	return nil
}

// Close lets go of the directories. Unless err is nil, the store was not finished: then
// Close removes what is there of it, and the directories that were made for it. It returns err,
// or what goes wrong here.
func (c *Claim) Close(err error) error {
	if err != nil {
		c.removeFiles()
	}
	return c.releaseLocks(err)
}

// removeFiles removes the files of the store. SUPER is first, then the manifest, as without them
// the others are no store.
func (c *Claim) removeFiles() {
	order := func(base string) int {
		name, _ := filename.Parse(base)
		return slices.Index([]filename.Kind{filename.Manifest, filename.Super}, name.Kind)
	}
	for _, dir := range c.Options.dirs() {
		names, _ := c.FS.List(dir)
		// A crash in the middle of this must leave nothing that looks like a store.
		slices.SortStableFunc(names, func(a, b string) int { return order(b) - order(a) })
		for _, base := range names {
			if name, ours := filename.Parse(base); ours && name.Kind != filename.Lock {
				_ = c.FS.Remove(filepath.Join(dir, base))
			}
		}
	}
}

// releaseLocks gives up the locks and the directories. After an error it removes the files of
// the locks, and the directories that were made, if they are empty.
func (c *Claim) releaseLocks(err error) error {
	var closing error
	for i, lock := range c.locks {
		closing = errors.Join(closing, lock.Close())
		if err != nil {
			// Remove fails on a directory that is not empty, so the lock's file goes before it.
			_ = c.FS.Remove(lockPath(c.Options.dirs()[i]))
		}
	}
	if c.FS != nil {
		closing = errors.Join(closing, c.FS.Close())
	}
	if err == nil {
		return closing
	}
	// One directory may lie in the other: the inner one is removed first.
	slices.SortFunc(c.made, func(a, b string) int { return len(b) - len(a) })
	for _, dir := range c.made {
		_ = c.base.Remove(dir)
	}
	return err
}

func lockPath(dir string) string { return filepath.Join(dir, filename.Of(filename.Lock, 0)) }
