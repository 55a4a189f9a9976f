package manifest

import (
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/failure"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// The format that this release writes. It reads every minor of its major.
const (
	FormatMajor = 4
	FormatMinor = 0
)

// knownRequired are the required features that this release understands: none.
const knownRequired = 0

const (
	superMagic = "BROCKSUP"
	superSize  = 2 * slotSize
	slotSize   = 4096
	slotSumAt  = 508 // in the first 512 bytes, which a disk writes whole
)

// Super is what SUPER says: the identity of the store and where its manifest is. A
// slot has the fields in this order, behind the magic.
type Super struct {
	Major, Minor uint16
	_            uint32
	Required     uint64 // features that a reader must know
	Optional     uint64 // features that a reader may ignore
	UUID         [16]byte
	Seed         uint64        // of the key hash
	Created      int64         // Unix milliseconds
	Manifest     entry.FileNum // 0 in the SUPER of a value directory
	Epoch        uint64        // counts the writes of SUPER; the slot with the greater one counts
	Durable      uint64        // number of a frame of the manifest that is durable; 0 = not recorded
	Session      uint64        // random, of the last session with a value directory; 0 = the store has none
	Before       uint64        // session that the value directory may still name; 0 = its SUPER may not be made yet
}

func (s *Super) identity() checksum.Identity {
	return checksum.New(s.UUID, byte(filename.Super), 0)
}

// slotOffset is where the slot of an epoch belongs. Writes take turns, so that a
// crash can tear only the older slot.
func slotOffset(epoch uint64) int64 { return int64(epoch%2) * slotSize }

// encode makes the slot for an offset.
func (s *Super) encode(offset int64) []byte {
	p := make([]byte, slotSize)
	copy(p, superMagic)
	_, _ = binary.Encode(p[len(superMagic):], binary.LittleEndian, s) // p is long enough
	binary.LittleEndian.PutUint32(p[slotSumAt:], s.slotSum(offset, p))
	return p
}

// slotSum covers the whole slot but the checksum itself.
func (s *Super) slotSum(offset int64, p []byte) uint32 {
	crc := checksum.Plain(p[:slotSumAt])
	crc = checksum.Extend(crc, p[slotSumAt+4:])
	return crc ^ s.identity().Mask(offset)
}

// decodeSlot reads the slot p from the offset; ok is false if its magic or checksum is
// wrong, or its epoch one that no store reaches and that could not be counted on.
func decodeSlot(p []byte, offset int64) (s Super, ok bool) {
	if len(p) < slotSize || string(p[:8]) != superMagic {
		return Super{}, false
	}
	_, _ = binary.Decode(p[len(superMagic):], binary.LittleEndian, &s)
	return s, s.slotSum(offset, p) == binary.LittleEndian.Uint32(p[slotSumAt:]) && s.Epoch < 1<<63
}

// supported refuses stores of other formats, and of features that it doesn't know.
func (s *Super) supported() error {
	if s.Major != FormatMajor {
		return fmt.Errorf("%w: the store has format %d.%d, this release reads %d.x", errs.ErrFormat, s.Major, s.Minor, FormatMajor)
	}
	if unknown := s.Required &^ knownRequired; unknown != 0 {
		return fmt.Errorf("%w: the store (format %d.%d) needs features %#x, which this release (%d.%d) does not know",
			errs.ErrFormat, s.Major, s.Minor, unknown, FormatMajor, FormatMinor)
	}
	return nil
}

// ReadSuper reads and checks SUPER in dir. It returns errs.ErrNotExist if there is
// no file or it was never written, errs.ErrForeign if another program wrote it,
// errs.ErrFormat if it is of another format, and *errs.Corruption if no slot is
// whole. One damaged slot does no harm.
func ReadSuper(fsys vfs.FS, dir string) (Super, error) {
	s, _, err := readSuper(fsys, dir)
	return s, err
}

// readSuper also reports whether SUPER is settled: both slots are whole and name
// the same manifest.
func readSuper(fsys vfs.FS, dir string) (s Super, settled bool, err error) {
	name := filename.Of(filename.Super, 0)
	p, err := readFile(fsys, filepath.Join(dir, name), superSize+1)
	if notThere(err) {
		return Super{}, false, fmt.Errorf("%w: no %s in %s", errs.ErrNotExist, name, dir)
	}
	if err != nil {
		return Super{}, false, err
	}
	// Create makes the file before it writes the first slot.
	if allZero(p) && len(p) <= superSize {
		return Super{}, false, fmt.Errorf("%w: %s in %s was never written", errs.ErrNotExist, name, dir)
	}
	// A crash may have left a shorter file, of one slot or of half a slot.
	p = append(p, make([]byte, max(0, superSize-len(p)))...)
	if s, settled, err = chooseSlot(dir, p[:slotSize], p[slotSize:superSize]); err != nil {
		return Super{}, false, err
	}
	if err := s.supported(); err != nil {
		return Super{}, false, err
	}
	return s, settled, nil
}

// chooseSlot returns the valid slot with the greater epoch.
func chooseSlot(dir string, first, second []byte) (s Super, settled bool, err error) {
	name := filename.Of(filename.Super, 0)
	a, okA := decodeSlot(first, 0)
	b, okB := decodeSlot(second, slotSize)
	switch {
	case okA && okB && a.UUID != b.UUID:
		return Super{}, false, errs.NewCorruption(name, 0, "the slots belong to two stores")
	case okA && okB && b.Epoch > a.Epoch:
		return b, a.Manifest == b.Manifest, nil
	case okA && okB:
		return a, a.Manifest == b.Manifest, nil
	case okA: // a crash or a flipped bit took the other slot
		return a, false, nil
	case okB:
		return b, false, nil
	case string(first[:8]) != superMagic && string(second[:8]) != superMagic:
		return Super{}, false, fmt.Errorf("%w: %s in %s is another program's", errs.ErrForeign, name, dir)
	}
	return Super{}, false, errs.NewCorruption(name, 0, "neither slot has a valid checksum")
}

// writeSlot writes s under its next epoch and syncs it.
func (s *Super) writeSlot(f vfs.File) error {
	s.Epoch++
	off := slotOffset(s.Epoch)
	if _, err := f.WriteAt(s.encode(off), off); err != nil {
		// Half a slot may be there. The next try must write the same one, as the
		// other is whole.
		s.Epoch--
		return unwrittenIf(err)
	}
	return f.Sync()
}

// unwritten is the error of opening or writing SUPER that passes. It is never the error
// of a sync: after a failed sync nobody knows what the disk holds.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

func unwrittenIf(err error) error {
	if failure.Passes(err) {
		return unwritten{err}
	}
	return err
}
