package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// CreateOptions is the identity of a new store.
type CreateOptions struct {
	UUID    [16]byte // random; names the store in every file
	Seed    uint64   // random; of the key hash
	Created int64    // Unix milliseconds

	Ring *crypt.Ring // only for Write; nil: the store is plain. Create uses Options.Keys instead
}

// CreateStore makes a store in the directories, which exist, and opens its log. A crash at any
// moment leaves a directory in which CreateStore can begin again, or a whole store. It returns
// errs.ErrExist if there is a store, errs.ErrForeign if the directory holds other things, and
// *errs.Corruption if it holds files of a store that has lost its SUPER. The caller holds the
// store's lock.
func CreateStore(o Options, c CreateOptions) (*Log, error) {
	if o.ReadOnly {
		return nil, fmt.Errorf("create a store in %s: %w", o.Dir, errs.ErrReadOnly)
	}
	if _, err := ReadSuper(o.FS, o.Dir); err == nil {
		return nil, fmt.Errorf("create a store in %s: %w", o.Dir, errs.ErrExist)
	} else if !errors.Is(err, errs.ErrNotExist) {
		return nil, err
	}
	// Only what this function itself leaves after a crash is removed. Anything else may be
	// somebody's data.
	halfMade, err := checkVacant(o)
	if err != nil {
		return nil, err
	}
	for _, name := range halfMade {
		if err := o.FS.Remove(filepath.Join(o.Dir, name)); err != nil {
			return nil, fmt.Errorf("remove the rest of a store that was not finished: %w", err)
		}
	}
	// A removed manifest must not come back beside the new one after a crash.
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return nil, fmt.Errorf("create a store in %s: %w", o.Dir, err)
	}
	begin, err := c.createLayout(&o)
	if err == nil {
		err = WriteStore(o, c, begin)
	}
	if err != nil {
		return nil, fmt.Errorf("create a store in %s: %w", o.Dir, err)
	}
	return Open(o)
}

// createLayout makes the keys of a new store, if it is to be encrypted, and its layout.
func (c *CreateOptions) createLayout(o *Options) (l *layout.Layout, err error) {
	if o.Keys == nil {
		return layout.New(), nil
	}
	if c.Ring, err = o.Keys(c.UUID, true); err != nil {
		return nil, err
	}
	return layout.New().Apply(&layout.Edit{DataKey: layout.DataKey{ID: c.Ring.Current()}})
}

// MakeDirs makes the directories of a new store, unless they exist.
func MakeDirs(o Options) error {
	for _, dir := range o.dirs() {
		if err := makeDir(o.FS, dir); err != nil {
			return fmt.Errorf("create a store: %w", err)
		}
	}
	return nil
}

// makeDir makes a directory and those above it, durably. Each is made only when
// the name of the one above is durable. So after a crash at any moment at most the
// name of the last one is not durable, and the next makeDir syncs that.
func makeDir(fsys vfs.FS, dir string) error {
	above, missing := filepath.Dir(dir), false
	if above != dir {
		_, err := fsys.Stat(dir)
		// Not MkdirAll alone: it could not say which names have to be synced.
		if missing = isAbsent(err); missing {
			if err = makeDir(fsys, above); err == nil {
				err = fsys.MkdirAll(dir)
			}
		}
		if err != nil {
			return err
		}
	}
	err := fsys.SyncDir(above)
	// Without permission to read the directory above, this process can't have made
	// the one below.
	if !missing && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// WriteStore writes the manifest of a new store, with a snapshot of its layout, then SUPER. The
// store exists when SUPER's first slot is synced. All files that the
// layout names are there, and durable. Neither name may exist. With CreateOptions.Ring the
// store is encrypted under its current key: the layout names that, and the file with the keys
// is there.
func WriteStore(o Options, c CreateOptions, l *layout.Layout) error {
	s := superFile{dir: o.Dir, key: storeKey(c.Ring), behind: 2}
	s.Super = Super{
		Major: FormatMajor, Minor: FormatMinor, UUID: c.UUID, Seed: c.Seed, Created: c.Created, Manifest: firstManifest,
	}
	if c.Ring != nil {
		s.Required = encrypted
	}
	if o.hasValueDir() {
		// Before is 0: the SUPER of the value directory may not be made yet.
		s.Session = newSession()
		// Values that are there already are those of this store: its SUPER says so.
		if len(l.Runs())+len(l.Segments()) > 0 {
			v := newValueSuper(&o, &s.Super, c.Ring)
			if err := v.writeSlots(o.FS); err != nil {
				return err
			}
		}
	}
	f, end, err := writeManifest(o, &s.Super, firstManifest, frame.Name{}, l, c.Ring)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// writeManifest has synced the file and its name. Only now SUPER may name it.
	s.recordDurable(end)
	return s.writeSlots(o.FS)
}

// CheckOpenable says whether Open would refuse the directory for good. It needs no lock and
// writes nothing. It returns errs.ErrKey if Options.Keys is set for a plain store or nil for
// an encrypted one, errs.ErrForeign, errs.ErrFormat, errs.ErrInvalid if values are elsewhere,
// or errs.ErrNotExist if there is no store and CreateStore may make one. It doesn't look for
// damage: what seems damaged may be another process at work.
func CheckOpenable(o Options) error {
	s, err := ReadSuper(o.FS, o.Dir)
	if err == nil {
		err = o.Keys.checkFit(&s)
	}
	// What an encrypted store says of its values is seen with the keys only.
	if err == nil && !s.Encrypted() {
		_, err = readValueSuper(&o, &s, nil)
	}
	switch {
	case errors.Is(err, errs.ErrKey), errors.Is(err, errs.ErrInvalid), errors.Is(err, errs.ErrForeign), errors.Is(err, errs.ErrFormat):
		return err
	// Damage: Open says so under the lock.
	case !errors.Is(err, errs.ErrNotExist):
		return nil
	}
	if _, refused := checkVacant(o); errors.Is(refused, errs.ErrForeign) {
		return refused
	}
	return err
}

// writeManifest makes the manifest num with a snapshot of the layout, and syncs it
// and its name. previous is the last frame of the manifest before. On an error it removes the file.
func writeManifest(o Options, s *Super, num entry.FileNum, previous frame.Name, l *layout.Layout, ring *crypt.Ring) (f vfs.File, end frame.End, err error) {
	path := filepath.Join(o.Dir, filename.Of(filename.Manifest, num))
	version := uint16(fileVersion)
	if ring != nil {
		version = fileEncrypted
	}
	p := encodeFileHeader(s.UUID, num, previous, version)
	enc := newEncryption(ring, s.UUID, num)
	first := firstPlace(num, p)
	if ring != nil {
		first.Tag = previous.Tag
	}
	snapshot, end, err := encodeFrame(manifestIdentity(s.UUID, num), enc, first, frame.Snapshot, l.Snapshot())
	if err != nil {
		return nil, end, err
	}
	f, err = pageio.CreateDurable(o.FS, path, p, snapshot) // SUPER names this manifest next
	return f, end, err
}
