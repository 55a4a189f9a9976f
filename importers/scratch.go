package importers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// immutable are the endings of files that an engine writes once, and only reads when it was told to
// read. All others of a source are small, and some libraries write to them even then.
var immutable = []string{".sst", ".ldb", ".vlog", ".blob"}

// lockName is the file that LevelDB and Pebble lock, and in which Badger notes who has its store open.
const lockName = "LOCK"

// staging says what becomes of the immutable files of a source. All others are copied.
type staging uint8

const (
	linked  staging = iota // for a library that only reads
	copied                 // for a library that writes: it may truncate what it deletes
	leftOut                // for a library that is given them in another way
)

// stageFiles makes dir a stand-in for the directory of a source.
func stageFiles(from, dir string, how staging) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	// What an import that was killed has left may be of another state of the source.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path, name := filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())
		if e.Name() == lockName {
			// Not opened: closing the file would release the lock that this process has on it.
			continue
		}
		info, err := os.Stat(path) // of what a link in the source leads to
		if err != nil {
			return err
		}
		if info.IsDir() {
			// Of a program, or one that the engine makes again.
			continue
		}
		switch fixed := slices.Contains(immutable, filepath.Ext(e.Name())); {
		case fixed && how == leftOut:
		case fixed && how == linked:
			err = linkFile(path, name)
		default:
			err = copyFile(path, name)
		}
		if err != nil {
			return err
		}
	}
	// goleveldb wants one.
	return os.WriteFile(filepath.Join(dir, lockName), nil, 0o600)
}

// linkFile makes name stand for the file at path: by a symbolic link, which leaves the file as it is and
// works across disks, or else by another kind or a copy.
func linkFile(path, name string) error {
	if os.Symlink(path, name) == nil || os.Link(path, name) == nil {
		return nil
	}
	return copyFile(path, name)
}

// copyFile copies a file. Memory is bounded, whatever its size.
func copyFile(path, name string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it is only read
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// filesOf lists the files of a source: the file itself, or those of its directories that count.
func filesOf(paths ...string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			// A lock says who had the store open, and LOG what an engine has done.
			if !e.IsDir() && e.Name() != lockName && e.Name() != "LOG" && e.Name() != "LOG.old" {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	return files, nil
}
