package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
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

// firstManifest is the number of the manifest that Create makes.
const firstManifest = 1

// firstKeyring is the number of the keyring of a new store.
const firstKeyring = 1

// Create makes a store in the directories, which exist, and opens its log. A crash at any
// moment leaves a directory in which Create can begin again, or a whole store. It returns
// errs.ErrExist if there is a store, errs.ErrForeign if the directory holds other things, and
// *errs.Corruption if it holds files of a store that has lost its SUPER. The caller holds the
// store's lock.
func Create(o Options, c CreateOptions) (*Log, error) {
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
		err = Write(o, c, begin)
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

// Write writes the manifest of a new store, with a snapshot of its layout, then SUPER. The
// store exists when SUPER's first slot is synced. All files that the
// layout names are there, and durable. Neither name may exist. With CreateOptions.Ring the
// store is encrypted under its current key: the layout names that, and the file with the keys
// is there.
func Write(o Options, c CreateOptions, l *layout.Layout) error {
	s := superFile{dir: o.Dir, key: storeKey(c.Ring), behind: 2}
	s.Super = Super{
		Major: FormatMajor, Minor: FormatMinor, UUID: c.UUID, Seed: c.Seed, Created: c.Created, Manifest: firstManifest,
	}
	if c.Ring != nil {
		s.Required = encrypted
	}
	if o.separate() {
		// Before is 0: the SUPER of the value directory may not be made yet.
		s.Session = newSession()
		// Values that are there already are those of this store: its SUPER says so.
		if len(l.Runs())+len(l.Segments()) > 0 {
			v := newValueSuper(&o, &s.Super, c.Ring)
			if err := v.settle(o.FS); err != nil {
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
	return s.settle(o.FS)
}

// Look says whether Open would refuse the directory for good. It needs no lock and
// writes nothing. It returns errs.ErrKey if Options.Keys is set for a plain store or nil for
// an encrypted one, errs.ErrForeign, errs.ErrFormat, errs.ErrInvalid if values are elsewhere,
// or errs.ErrNotExist if there is no store and Create may make one. It doesn't look for
// damage: what seems damaged may be another process at work.
func Look(o Options) error {
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

// checkVacant lists the remains of an unfinished Create; any other file of a store
// or of another program is an error. A directory that is not there is vacant.
func checkVacant(o Options) (remains []string, err error) {
	remains, err = o.remainsIn(o.Dir)
	if err != nil || !o.separate() {
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
		case !ours && dir == o.Dir && !Harmless(base) && !o.leads(o.FS, filepath.Join(dir, base)):
			return nil, fmt.Errorf("%w: %s holds %s; a new store wants an empty directory", errs.ErrForeign, dir, base)
		case !ours || name.Kind == filename.Lock:
		case name.Kind == filename.Super || dir == o.Dir && o.unused(name):
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

// Harmless reports whether a file of this name may lie in the directory of a new store.
func Harmless(base string) bool { return strings.HasPrefix(base, ".") || base == "lost+found" }

// unused reports whether a file may be one that Create leaves: a keyring under whose keys no file
// is, or a manifest to which no edit was ever appended.
func (o *Options) unused(name filename.Name) bool {
	path := filepath.Join(o.Dir, name.String())
	switch name {
	case filename.New(filename.Keyring, firstKeyring):
		p, err := readFile(o.FS, path, 512)
		return err == nil && keyring.Unfinished(p)
	case filename.New(filename.Manifest, firstManifest):
		begin := layout.New().Snapshot()
		// The longest first manifest: that of an encrypted store.
		begin.DataKey.ID = crypt.ID{1}
		frame, _, _ := encodeFrame(0, nil, frame.Cursor{}, frame.Snapshot, begin)
		most := fileHeader + len(frame) + frameExtra
		p, err := readFile(o.FS, path, int64(most)+1)
		return err == nil && len(p) <= most && (allZero(p) || bytes.HasPrefix(p, []byte(fileMagic)))
	}
	return false
}

// writeManifest makes the manifest num with a snapshot of the layout, and syncs it
// and its name. previous is the last frame of the manifest before. On an error it removes the file.
func writeManifest(o Options, s *Super, num entry.FileNum, previous frame.Name, l *layout.Layout, ring *crypt.Ring) (f vfs.File, end frame.Cursor, err error) {
	path := filepath.Join(o.Dir, filename.Of(filename.Manifest, num))
	version := uint16(fileVersion)
	if ring != nil {
		version = fileEncrypted
	}
	p := encodeFileHeader(s.UUID, num, previous, version)
	enc := newEncryption(ring, s.UUID, num)
	first := firstFrame(binary.LittleEndian.Uint32(p[fileSumAt:]))
	if ring != nil {
		first.Tag = previous.Tag
	}
	snapshot, end, err := encodeFrame(manifestIdentity(s.UUID, num), enc, first, frame.Snapshot, l.Snapshot())
	if err != nil {
		return nil, end, err
	}
	if f, err = o.FS.Create(path); err != nil {
		return nil, end, err
	}
	_, err = f.WriteAt(append(p, snapshot...), 0)
	// File, then directory: SUPER names this manifest next.
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = o.FS.SyncDir(o.Dir)
	}
	if err != nil {
		return nil, end, errors.Join(err, f.Close(), o.FS.Remove(path))
	}
	return f, end, nil
}
