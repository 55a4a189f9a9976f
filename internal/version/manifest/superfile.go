package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/vfs"
)

// superFile is the SUPER of one directory. It has two slots. The whole one with the greater epoch
// counts, and the other one is written next: so a crash leaves one of them whole.
type superFile struct {
	// the slot that counted when it was read, not ok if there was none. Its Super is what SUPER
	// says, or will say once slots were written
	slot
	other   slot // as it was read
	dir     string
	key     slotKey
	secured bool // what SUPER says, and its name, are durable
	behind  int  // how many slots are to be written until both say this: 0 to 2
}

// ReadSuper reads and checks SUPER in dir. It returns errs.ErrNotExist if there is
// no file or it was never written, errs.ErrForeign if another program wrote it,
// errs.ErrFormat if it is of another format, and *errs.Corruption if no slot is
// whole. One damaged slot does no harm. Of an encrypted store, fields but the format, the
// features, uuid and epoch are zero: they need the keys, which Load uses.
func ReadSuper(fsys vfs.FS, dir string) (Super, error) {
	s, err := readSuper(fsys, dir)
	return s.Super, err
}

// OpenSuper is ReadSuper with the keys of an encrypted store: nothing is left out. ring is nil
// for a plain one.
func OpenSuper(fsys vfs.FS, dir string, ring *crypt.Ring) (Super, error) {
	s, err := readSuper(fsys, dir)
	if err == nil {
		err = s.decryptWith(storeKey(ring))
	}
	return s.Super, err
}

// openSuper is readSuper for the store's own directory, and with its keys, which it returns.
func openSuper(o *Options) (s superFile, ring *crypt.Ring, err error) {
	if s, err = readSuper(o.FS, o.Dir); err == nil {
		err = o.Keys.checkFit(&s.Super)
	}
	if err == nil && o.Keys != nil {
		ring, err = o.Keys(s.UUID, false)
	}
	if err == nil {
		err = s.decryptWith(storeKey(ring))
	}
	return s, ring, err
}

// readSuper reads both slots, as far as that is possible without keys.
func readSuper(fsys vfs.FS, dir string) (superFile, error) {
	name := filename.Of(filename.Super, 0)
	p, err := pageio.ReadHead(fsys, filepath.Join(dir, name), superSize+1)
	if isAbsent(err) {
		return superFile{}, fmt.Errorf("%w: no %s in %s", errs.ErrNotExist, name, dir)
	}
	if err != nil {
		return superFile{}, err
	}
	// It is made before its first slot is written.
	if allZero(p) && len(p) <= superSize {
		return superFile{}, fmt.Errorf("%w: %s in %s was never written", errs.ErrNotExist, name, dir)
	}
	// A crash may have left a shorter file, of one slot or of half a slot.
	p = append(p, make([]byte, max(0, superSize-len(p)))...)
	s, err := chooseSlot(dir, p[:slotSize], p[slotSize:superSize])
	if err == nil {
		err = s.checkSupported()
	}
	if err != nil {
		return superFile{}, err
	}
	return s, nil
}

// chooseSlot finds the valid slot with the greater epoch. A crash or a flipped bit may
// have damaged the other one.
func chooseSlot(dir string, first, second []byte) (superFile, error) {
	name := filename.Of(filename.Super, 0)
	a, b := decodeSlot(first, 0), decodeSlot(second, slotSize)
	switch {
	case a.ok && b.ok && a.UUID != b.UUID:
		return superFile{}, errs.NewCorruption(name, 0, "the slots belong to two stores")
	// Writes take turns, so the older slot is the one that a crash can have torn.
	case b.ok && (!a.ok || b.Epoch > a.Epoch):
		return superFile{dir: dir, slot: b, other: a}, nil
	case a.ok:
		return superFile{dir: dir, slot: a, other: b}, nil
	// Neither was ever written by us.
	case string(first[:8]) != superMagic && string(second[:8]) != superMagic:
		return superFile{}, fmt.Errorf("%w: %s in %s is another program's", errs.ErrForeign, name, dir)
	}
	return superFile{}, errs.NewCorruption(name, 0, "neither slot has a valid checksum")
}

// decryptWith reads the fields that are encrypted. It returns errs.ErrKey if the slot that counts has
// another key.
func (s *superFile) decryptWith(k slotKey) error {
	s.key = k
	return s.decryptFields(k)
}

// isSettled reports whether both slots are whole and name the same manifest. If the other one names
// an older manifest, a crash has come between the two writes, and that manifest may still be there.
func (s *superFile) isSettled() bool {
	return s.other.ok && s.other.decryptFields(s.key) == nil && s.other.Manifest == s.Manifest && s.other.Required == s.Required
}

// writeSlots makes durable what SUPER says and its name, then writes the slots that are behind, in
// turn. If there is no SUPER it makes one.
func (s *superFile) writeSlots(fsys vfs.FS) error {
	if s.secured && s.behind == 0 {
		return nil
	}
	path := filepath.Join(s.dir, filename.Of(filename.Super, 0))
	f, err := fsys.OpenReadWrite(path)
	if isAbsent(err) && !s.ok {
		f, err = fsys.Create(path)
	}
	if err != nil {
		return unwritten{err}
	}
	// The other slot is overwritten next. If this one were not durable, a crash could leave
	// neither.
	if !s.secured {
		err = s.secureSlot(fsys, f)
	}
	for err == nil && s.behind > 0 {
		if err = s.writeSlot(f); err == nil {
			s.behind--
		}
	}
	return errors.Join(err, f.Close())
}

// secureSlot makes durable what SUPER says, and its name. It writes the slot that counts again, as
// it is: if the sync of the process that wrote it has failed, another one alone may do nothing
// (docs/adr, 15). The same bytes: a crash that tears this write changes nothing.
func (s *superFile) secureSlot(fsys vfs.FS, f vfs.File) error {
	if s.ok {
		if _, err := f.WriteAt(s.bytes, s.offset); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	err := fsys.SyncDir(s.dir)
	s.secured = err == nil
	return err
}

// writeSlot writes what SUPER says under its next epoch, and syncs it.
func (s *superFile) writeSlot(f vfs.File) error {
	s.Epoch++
	// Over the older slot, as writes take turns: if a crash tears this one, the newer still counts.
	off := int64(s.Epoch%2) * slotSize
	p, err := s.encodeSlot(s.key, off)
	if err == nil {
		_, err = f.WriteAt(p, off)
	}
	if err != nil {
		// Half a slot may be there. The next try must write the same one, as the
		// other is whole.
		s.Epoch--
		return unwritten{err}
	}
	// After a failed sync the epoch stays raised: either slot may be on the disk.
	return f.Sync()
}

// unwritten is the error of opening or writing SUPER. It is never the error of a sync: after a
// failed sync nobody knows what the disk holds.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// writePasses reports whether SUPER says what it said before err, and may be written again.
func writePasses(err error) bool { return errors.As(err, new(unwritten)) && errs.Passes(err) }
