package brock

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// Replace puts the store in the directory fresh in the place of the one in dir, for instance one that
// Restore has made there, and the one of dir under the name fresh. Nobody may have one of them open.
// Both directories must have the same parent. The exchange is one step: after a crash dir has either
// the one store or the other, whole. It is durable when Replace returns nil. The old store is not
// touched otherwise: remove it, as by os.RemoveAll, once you don't need it any more. A follower of dir
// stays with the old store: open it anew. Value directories (Options.ValueDir) stay where they are:
// open dir with that of the new store.
//
// It returns ErrNotExist if one of the directories has no store, ErrLocked if a process has one of
// them open, ErrInvalid for directories with two parents, and ErrUnsupported where the system can't
// exchange directories: it can on Linux and macOS, on most file systems. After these errors nothing
// has changed.
func Replace(dir, fresh string) error { return replaceStore(vfs.OS(), dir, fresh) }

func replaceStore(fsys vfs.FS, dir, fresh string) (err error) {
	// ".", ".." and links are names of directories that have others, too: what is exchanged is a
	// name in a parent.
	dir, fresh = filepath.Clean(dir), filepath.Clean(fresh)
	parent := filepath.Dir(dir)
	x, ok := fsys.(vfs.Exchanger)
	switch {
	case !ok:
		return fmt.Errorf("%w: the file system can't exchange directories", ErrUnsupported)
	case parent != filepath.Dir(fresh) || filepath.Base(dir) == ".." || dir == parent || vfs.Same(fsys, dir, fresh):
		return fmt.Errorf("%w: %s and %s are not two directories with one parent", ErrInvalid, dir, fresh)
	}
	wrapped := fileSystem(fsys)
	for _, at := range []string{dir, fresh} {
		if _, err := wrapped.Stat(filepath.Join(at, filename.Of(filename.Super, 0))); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrNotExist, at, err)
		}
		lock, err := wrapped.Lock(filepath.Join(at, filename.Of(filename.Lock, 0)), false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if err := x.Exchange(dir, fresh); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		return err
	}
	if err := wrapped.SyncDir(parent); err != nil {
		return fmt.Errorf("%s and %s are exchanged, but not durably: %w", dir, fresh, err)
	}
	return nil
}
