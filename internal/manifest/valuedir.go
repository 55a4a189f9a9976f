package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// A value directory of its own has a SUPER, too: it names the store, and the last session
// that wrote there. Every session draws a number. The SUPER of the store's directory is
// told first, with the number before, then the one of the value directory. So of two
// copies of the store's directory only one agrees with the value directory: the one that
// was opened last (docs/adr, 39).

// separate reports whether values lie in a directory of their own.
func (o *Options) separate() bool { return o.ValueDir != "" && o.ValueDir != o.Dir }

// newSession draws the number of a session.
func newSession() uint64 { return rand.Uint64() | 1 }

// readValueSuper reads the SUPER of the value directory of the store that s describes;
// made is false if there is none. It returns errs.ErrForeign if that or s belongs to
// another directory, and errs.ErrInvalid if the store keeps its values elsewhere.
func readValueSuper(o *Options, s *Super) (v Super, made bool, err error) {
	switch {
	case s.Manifest == 0:
		return v, false, fmt.Errorf("%w: %s is the ValueDir of a store", errs.ErrForeign, o.Dir)
	case s.Session == 0 && o.separate():
		return v, false, fmt.Errorf("%w: the store in %s keeps its values there, and was made without ValueDir", errs.ErrInvalid, o.Dir)
	case s.Session != 0 && !o.separate():
		return v, false, fmt.Errorf("%w: the store in %s keeps its values elsewhere: ValueDir must name that directory", errs.ErrInvalid, o.Dir)
	case !o.separate():
		return v, false, nil
	}
	v, err = ReadSuper(o.FS, o.ValueDir)
	switch {
	case errors.Is(err, errs.ErrNotExist):
		return v, false, nil
	case err != nil:
		return v, false, fmt.Errorf("ValueDir: %w", err)
	case v.UUID != s.UUID || v.Manifest != 0:
		return v, false, fmt.Errorf("%w: %s belongs to another store than %s", errs.ErrForeign, o.ValueDir, o.Dir)
	}
	return v, true, nil
}

// ownValueDir checks that the value directory is this copy's. It needs the lock.
func (l *Log) ownValueDir() (err error) {
	o, s := &l.o, &l.super
	l.values, l.valuesMade, err = readValueSuper(o, s)
	switch {
	case err != nil || !o.separate():
		return err
	case l.valuesMade && l.values.Session != s.Session && l.values.Session != s.Before:
		return fmt.Errorf("%w: another copy of %s has used the ValueDir %s since this one was closed", errs.ErrForeign, o.Dir, o.ValueDir)
	case l.valuesMade:
		return nil
	}
	// A crash while the store was made leaves nothing at all there.
	names, err := o.FS.List(o.ValueDir)
	if err != nil {
		return fmt.Errorf("ValueDir: %w", err)
	}
	empty := s.Before == 0
	for _, base := range names {
		name, ours := filename.Parse(base)
		empty = empty && (!ours || name.Kind == filename.Lock || name.Kind == filename.Super)
	}
	if !empty {
		return errs.NewCorruption(filename.Of(filename.Super, 0), -1,
			"%s has none: it is not the ValueDir of %s, or its disk is not mounted", o.ValueDir, o.Dir)
	}
	return nil
}

// takeValueDirLocked begins a session with the value directory, the first of which makes
// its SUPER. Both slots of the store's SUPER say the same before the other is written:
// one damaged slot does no harm.
func (l *Log) takeValueDirLocked() error {
	v := &l.values
	if !l.valuesMade {
		*v = Super{Major: FormatMajor, Minor: FormatMinor, UUID: l.super.UUID, Seed: l.super.Seed, Created: l.super.Created, Session: l.super.Session}
		if err := l.writeValueSuper(2); err != nil {
			return err
		}
		l.super.Before = v.Session
		return l.writeSuper(2)
	}
	l.super.Before, l.super.Session = v.Session, newSession()
	if err := l.writeSuper(2); err != nil {
		return err
	}
	v.Session = l.super.Session
	return l.writeValueSuper(1)
}

// writeValueSuper writes that many slots of the SUPER of the value directory.
func (l *Log) writeValueSuper(slots int) error {
	path := filepath.Join(l.o.ValueDir, filename.Of(filename.Super, 0))
	var f vfs.File
	var err error
	if f, err = l.o.FS.OpenReadWrite(path); notThere(err) {
		f, err = l.o.FS.Create(path)
	}
	if err != nil {
		return err
	}
	for ; err == nil && slots > 0; slots-- {
		err = l.values.writeSlot(f)
	}
	if err == nil {
		err = l.o.FS.SyncDir(l.o.ValueDir)
	}
	return errors.Join(err, f.Close())
}
