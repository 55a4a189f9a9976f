package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
)

// A value directory of its own has a SUPER, too: it names the store, and the last session
// that wrote there. Every session draws a number. It is written to the SUPER of the store's
// directory first, with the number of the session before, then to that of the value
// directory. So of two copies of the store's directory only one agrees with the value
// directory: the one that was opened last (docs/adr, 39).

// newSession draws the number of a session.
func newSession() uint64 { return rand.Uint64() | 1 }

// ErrElsewhere says that a store has a value directory, and that none was named. It wraps
// errs.ErrInvalid.
var ErrElsewhere = fmt.Errorf("%w: the store keeps its values elsewhere", errs.ErrInvalid)

// newValueSuper is the SUPER of the value directory of the store that s describes, which is not
// there yet.
func newValueSuper(o *Options, s *Super, ring *crypt.Ring) superFile {
	v := superFile{dir: o.ValueDir, key: valuesKey(ring), behind: 2}
	v.Super = Super{Major: s.Major, Minor: s.Minor, Required: s.Required, UUID: s.UUID, Seed: s.Seed, Created: s.Created, Session: s.Session}
	return v
}

// checkDirs returns errs.ErrForeign if s is the SUPER of a value directory, and errs.ErrInvalid if
// the store keeps its values elsewhere: this is ErrElsewhere if no directory was named.
func (o *Options) checkDirs(s *Super) error {
	switch {
	case s.Manifest == 0:
		return fmt.Errorf("%w: %s is the ValueDir of a store", errs.ErrForeign, o.Dir)
	case s.Session == 0 && o.hasValueDir():
		return fmt.Errorf("%w: the store in %s keeps its values there, and was made without ValueDir", errs.ErrInvalid, o.Dir)
	case s.Session != 0 && !o.hasValueDir():
		return fmt.Errorf("%w than in %s: ValueDir must name that directory", ErrElsewhere, o.Dir)
	}
	return nil
}

// readValueSuper reads the SUPER of the value directory of the store that s describes; it is
// not ok if there is none. It returns the errors of checkDirs, and errs.ErrForeign if it is that
// of another store.
func readValueSuper(o *Options, s *Super, ring *crypt.Ring) (superFile, error) {
	if err := o.checkDirs(s); err != nil || !o.hasValueDir() {
		return superFile{}, err
	}
	v, err := readSuper(o.FS, o.ValueDir)
	if errors.Is(err, errs.ErrNotExist) {
		return newValueSuper(o, s, ring), nil
	}
	// It may still be plain when the store has become encrypted: its next session ends that.
	ours := v.UUID == s.UUID && !(v.Encrypted() && ring == nil)
	if err == nil && ours {
		err = v.decryptWith(valuesKey(ring))
	}
	switch {
	// The keys fit the store. So this is the SUPER of a store's own directory, or that of a
	// copy with data keys of its own. Other keys would not help: the error is no ErrKey.
	case errors.Is(err, crypt.ErrTag), errors.Is(err, keyring.ErrAbsent):
		return v, fmt.Errorf("%w: %s belongs to another copy of the store than %s", errs.ErrForeign, o.ValueDir, o.Dir)
	case err != nil:
		return v, fmt.Errorf("ValueDir: %w", err)
	case !ours || v.Manifest != 0:
		return v, fmt.Errorf("%w: %s belongs to another store than %s", errs.ErrForeign, o.ValueDir, o.Dir)
	}
	return v, nil
}

// openValueDir checks that the value directory is that of this copy of the store. It
// needs the lock.
func openValueDir(o *Options, s *Super, ring *crypt.Ring) (superFile, error) {
	v, err := readValueSuper(o, s, ring)
	switch {
	case err != nil || !o.hasValueDir():
		return v, err
	case v.ok && v.Session != s.Session && v.Session != s.Before:
		return v, fmt.Errorf("%w: another copy of %s has used the ValueDir %s since this one was closed", errs.ErrForeign, o.Dir, o.ValueDir)
	case v.ok:
		return v, nil
	}
	// The store's SUPER says that the other one was made.
	if s.Before != 0 {
		return v, errs.NewCorruption(filename.Of(filename.Super, 0), -1,
			"%s has none: it is not the ValueDir of %s, or its disk is not mounted", o.ValueDir, o.Dir)
	}
	_, err = o.remainsIn(o.ValueDir) // as a crash leaves it while the store is made
	return v, err
}
