package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// What may lie in the directories of a new store.

// The numbers of the files that CreateStore makes.
const (
	firstManifest = 1
	firstKeyring  = 1
)

// checkVacant lists the remains of an unfinished CreateStore; any other file of a store
// or of another program is an error. A directory that is not there is vacant.
func checkVacant(o Options) (remains []string, err error) {
	remains, err = o.remainsIn(o.Dir)
	if err != nil || !o.hasValueDir() {
		return remains, err
	}
	switch _, err := ReadSuper(o.FS, o.ValueDir); {
	case err == nil:
		return nil, fmt.Errorf("%w: %s belongs to another store", errs.ErrForeign, o.ValueDir)
	case !errors.Is(err, errs.ErrNotExist):
		return nil, fmt.Errorf("ValueDir: %w", err)
	}
	_, err = o.remainsIn(o.ValueDir)
	return remains, err
}

// remainsIn is checkVacant for one directory, in which SUPER is absent or was never written. In the
// value directory files of other programs may be.
func (o *Options) remainsIn(dir string) (remains []string, err error) {
	names, err := o.FS.List(dir)
	if err != nil && !isAbsent(err) {
		return nil, fmt.Errorf("create a store: %w", err)
	}
	var damage error
	for _, base := range names {
		name, ours := filename.Parse(base)
		switch {
		case !ours && dir == o.Dir && !isHarmless(base) && !o.leadsToDir(o.FS, filepath.Join(dir, base)):
			return nil, fmt.Errorf("%w: %s holds %s; a new store wants an empty directory", errs.ErrForeign, dir, base)
		case !ours || name.Kind == filename.Lock:
		case name.Kind == filename.Super || dir == o.Dir && o.isUnused(name):
			remains = append(remains, base)
		default:
			damage = lostSuper(dir, base)
		}
	}
	return remains, damage
}

// lostSuper says that files of a store are there, and no SUPER.
func lostSuper(dir, base string) error {
	return errs.NewCorruption(filename.Of(filename.Super, 0), -1,
		"%s holds %s, a file of a store, and there is no SUPER: it is lost or this is not the store's directory", dir, base)
}

// isHarmless reports whether a file of this name may lie in the directory of a new store.
func isHarmless(base string) bool { return strings.HasPrefix(base, ".") || base == "lost+found" }

// isUnused reports whether a file may be one that CreateStore leaves: a keyring under whose keys no file
// is, or a manifest to which no edit was ever appended.
func (o *Options) isUnused(name filename.Name) bool {
	path := filepath.Join(o.Dir, name.String())
	switch name {
	case filename.New(filename.Keyring, firstKeyring):
		p, err := pageio.ReadHead(o.FS, path, 512)
		return err == nil && keyring.Unfinished(p)
	case filename.New(filename.Manifest, firstManifest):
		begin := layout.New().Snapshot()
		// The longest first manifest: that of an encrypted store.
		begin.DataKey.ID = crypt.ID{1}
		frame, _, _ := encodeFrame(0, nil, frame.End{}, frame.Snapshot, begin)
		most := fileHeader + len(frame) + frameExtra
		p, err := pageio.ReadHead(o.FS, path, int64(most)+1)
		return err == nil && len(p) <= most && (allZero(p) || bytes.HasPrefix(p, []byte(fileMagic)))
	}
	return false
}

// checkEmpty returns errs.ErrExist if a directory has anything in it but the other directory, a
// lock, and names that are harmless. base also knows names above the directories.
func (o *Options) checkEmpty(dir string, base vfs.FS) error {
	names, err := o.FS.List(dir)
	if err != nil && !isAbsent(err) {
		return err
	}
	if slices.Contains(names, filename.Of(filename.Super, 0)) {
		return fmt.Errorf("%w: %s has one", errs.ErrExist, dir)
	}
	for _, name := range names {
		if name == filename.Of(filename.Lock, 0) || isHarmless(name) || o.leadsToDir(base, filepath.Join(dir, name)) {
			continue
		}
		return fmt.Errorf("%w: %s holds %s, and the new store wants an empty directory; if it was cut here before, remove the directory",
			errs.ErrExist, dir, name)
	}
	return nil
}

// leadsToDir reports whether path is one of the directories, or one of them lies below it. In
// directories that are held open, fsys knows nothing above them: there the names decide.
func (o *Options) leadsToDir(fsys vfs.FS, path string) bool {
	for _, at := range o.dirs() {
		if vfs.Same(fsys, path, at) {
			return true
		}
		for at, below := absolutePath(at), ""; at != below; at, below = filepath.Dir(at), at {
			if vfs.Same(fsys, absolutePath(path), at) {
				return true
			}
		}
	}
	return false
}

// absolutePath returns a name that has all directories above in it.
func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}
