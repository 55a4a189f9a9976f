package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// The format that this release writes. It reads every minor of its major.
const (
	FormatMajor = 2
	FormatMinor = 0
)

// Features that a store may need or have; no release has defined any yet.
const (
	knownRequired = 0 // required bits that this release understands
)

const (
	superMagic = "BROCKSUP"
	superSize  = 2 * slotSize
	slotSize   = 4096
	slotSumAt  = 508 // within the first 512 bytes, which a disk writes whole
)

// Super is what SUPER says: the identity of the store and where its manifest is.
type Super struct {
	Major, Minor uint16
	Required     uint64 // features without which nobody may open the store
	Optional     uint64 // features that may be ignored
	UUID         [16]byte
	Seed         uint64 // of the key hash
	Created      int64  // Unix milliseconds
	Manifest     entry.FileNum
	Epoch        uint64 // counts the writes of SUPER; the slot with the greater one counts
	Durable      uint64 // number of a frame of the manifest that is durable; 0 = not recorded
}

func (s *Super) identity() checksum.Identity {
	return checksum.New(s.UUID, byte(filename.Super), 0)
}

// slotOffset is where a slot with the epoch belongs.
func slotOffset(epoch uint64) int64 { return int64(epoch%2) * slotSize }

// encode makes the slot for the offset.
func (s *Super) encode(offset int64) []byte {
	p := make([]byte, slotSize)
	le := binary.LittleEndian
	copy(p, superMagic)
	le.PutUint16(p[8:], s.Major)
	le.PutUint16(p[10:], s.Minor)
	le.PutUint64(p[16:], s.Required)
	le.PutUint64(p[24:], s.Optional)
	copy(p[32:48], s.UUID[:])
	le.PutUint64(p[48:], s.Seed)
	le.PutUint64(p[56:], uint64(s.Created))
	le.PutUint64(p[64:], uint64(s.Manifest))
	le.PutUint64(p[72:], s.Epoch)
	le.PutUint64(p[80:], s.Durable)
	le.PutUint32(p[slotSumAt:], s.slotSum(offset, p))
	return p
}

// slotSum covers the whole slot but the checksum itself.
func (s *Super) slotSum(offset int64, p []byte) uint32 {
	crc := checksum.Plain(p[:slotSumAt])
	crc = checksum.Extend(crc, p[slotSumAt+4:])
	return crc ^ s.identity().Mask(offset)
}

// decodeSlot reads the slot p from the offset; ok is false if its magic or
// checksum is wrong.
func decodeSlot(p []byte, offset int64) (s Super, ok bool) {
	le := binary.LittleEndian
	if len(p) < slotSize || string(p[:8]) != superMagic {
		return Super{}, false
	}
	s = Super{
		Major: le.Uint16(p[8:]), Minor: le.Uint16(p[10:]),
		Required: le.Uint64(p[16:]), Optional: le.Uint64(p[24:]), UUID: [16]byte(p[32:48]),
		Seed: le.Uint64(p[48:]), Created: int64(le.Uint64(p[56:])),
		Manifest: entry.FileNum(le.Uint64(p[64:])), Epoch: le.Uint64(p[72:]),
		Durable: le.Uint64(p[80:]),
	}
	return s, s.slotSum(offset, p) == le.Uint32(p[slotSumAt:])
}

// supported refuses stores of later formats.
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

// ReadSuper reads and checks SUPER in dir. It gives errs.ErrNotExist if there is
// no file or it was never written, errs.ErrForeign if it is not ours,
// errs.ErrFormat if it is of a later format, and *errs.Corruption if no slot is
// whole. One damaged slot does no harm.
func ReadSuper(fsys vfs.FS, dir string) (Super, error) {
	s, _, err := readSuper(fsys, dir)
	return s, err
}

// readSuper also reports whether both slots are whole and say the same manifest.
func readSuper(fsys vfs.FS, dir string) (s Super, settled bool, err error) {
	name := filename.Of(filename.Super, 0)
	p, err := readFile(fsys, filepath.Join(dir, name), superSize+1)
	if notThere(err) {
		return Super{}, false, fmt.Errorf("%w: no %s in %s", errs.ErrNotExist, name, dir)
	}
	if err != nil {
		return Super{}, false, err
	}
	if allZero(p) && len(p) <= superSize {
		return Super{}, false, fmt.Errorf("%w: %s in %s was never written", errs.ErrNotExist, name, dir)
	}
	p = append(p, make([]byte, max(0, superSize-len(p)))...)
	a, okA := decodeSlot(p[:slotSize], 0)
	b, okB := decodeSlot(p[slotSize:superSize], slotSize)
	switch {
	case okA && okB && a.UUID != b.UUID:
		return Super{}, false, errs.NewCorruption(name, 0, "the slots belong to two stores")
	case okA && okB:
		s, settled = a, a.Manifest == b.Manifest
		if b.Epoch > a.Epoch {
			s = b
		}
	case okA:
		s = a
	case okB:
		s = b
	case string(p[:8]) != superMagic && string(p[slotSize:slotSize+8]) != superMagic:
		return Super{}, false, fmt.Errorf("%w: %s in %s is another program's", errs.ErrForeign, name, dir)
	default:
		return Super{}, false, errs.NewCorruption(name, 0, "neither slot has a valid checksum")
	}
	if err := s.supported(); err != nil {
		return Super{}, false, err
	}
	return s, settled, nil
}

// writeSlot writes s under its next epoch and syncs it. Tried again after a
// failed write, it writes the same slot: the other one is whole.
func (s *Super) writeSlot(f vfs.File) error {
	s.Epoch++
	off := slotOffset(s.Epoch)
	if _, err := f.WriteAt(s.encode(off), off); err != nil {
		s.Epoch--
		return written(err)
	}
	return f.Sync()
}

// readFile reads a file whole, or its first limit bytes.
func readFile(fsys vfs.FS, path string, limit int64) (p []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	p = make([]byte, min(size, limit))
	n, err := f.ReadAt(p, 0)
	if n < len(p) && (err == nil || errors.Is(err, io.EOF)) {
		return nil, errs.NewCorruption(filepath.Base(path), int64(n), "the file ends here and should have %d bytes", len(p))
	}
	if n < len(p) {
		return nil, err
	}
	return p, nil
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func allZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
