package manifest

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// The format that this release writes. It reads every minor of its major.
const (
	FormatMajor = 6
	FormatMinor = 0
)

// The required features that this release understands.
const (
	encrypted     = 1 << 0 // fields of SUPER, the manifest and new files are encrypted
	knownRequired = encrypted
)

const (
	superMagic = "BROCKSUP"
	superSize  = 2 * slotSize
	slotSize   = 4096
	slotSumAt  = 508 // in the first 512 bytes, which a disk writes whole
)

// Super is what SUPER says: the identity of the store and where its manifest is. The order
// of the fields is the format of a plain slot, behind the magic: encodeSlot writes them so. In an
// encrypted one those from Seed on are encrypted.
type Super struct {
	Major, Minor uint16
	_            uint32
	Required     uint64 // features that a reader must know
	Optional     uint64 // features that a reader may ignore
	UUID         [16]byte
	Epoch        uint64 // counts the writes of SUPER; the slot with the greater one counts
	_            uint32
	Sum          uint32        // header checksum of the frame Durable
	Tag          crypt.Tag     // of that frame; zeros: it is plain
	Seed         uint64        // of the key hash
	Created      int64         // Unix milliseconds
	Manifest     entry.FileNum // 0 in the SUPER of a value directory
	Durable      uint64        // number of a frame of the manifest that is durable; 0 = there is no manifest
	Session      uint64        // random, of the last session with a value directory; 0 = the store has none
	Before       uint64        // session that the value directory may still name; 0 = its SUPER may not be made yet
}

// recordDurable notes that the frame before end is durable.
func (s *Super) recordDurable(end frame.End) {
	s.Durable, s.Sum, s.Tag = end.Number, end.Sum, end.Tag
}

// agreesWith reports whether a frame can be one of the manifest that s means: if it has the number of
// the frame that was durable, it must be that frame, and not one of another copy.
func (s *Super) agreesWith(found frame.Name) bool {
	durable := frame.Name{File: s.Manifest, Number: s.Durable, Sum: s.Sum, Tag: s.Tag}
	return found.Number == 0 || found.Number != s.Durable || found == durable
}

// Encrypted reports whether the store is encrypted.
func (s *Super) Encrypted() bool { return s.Required&encrypted != 0 }

// encodeSlot makes the slot for an offset.
func (s *Super) encodeSlot(k slotKey, offset int64) ([]byte, error) {
	p := make([]byte, slotSize)
	copy(p, superMagic)
	_, _ = binary.Encode(p[len(superMagic):], binary.LittleEndian, s) // p is long enough
	if err := k.encryptSlot(p, s.UUID, offset); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(p[slotSumAt:], s.slotSum(offset, p))
	return p, nil
}

// slotSum covers the whole slot but the checksum itself.
func (s *Super) slotSum(offset int64, p []byte) uint32 {
	crc := checksum.Plain(p[:slotSumAt])
	crc = checksum.Extend(crc, p[slotSumAt+4:])
	return crc ^ checksum.New(s.UUID, byte(filename.Super), 0).Mask(offset)
}

// slot is one of the two slots, as it is on the disk: of an encrypted store, the Super has
// its identity, features and epoch only.
type slot struct {
	Super
	ok     bool   // magic and checksum are right
	offset int64  // of the slot in the file
	bytes  []byte // the whole slot
}

// decodeSlot reads the slot p from the offset. It is not ok if its magic or checksum is
// wrong, or its epoch is 2^63 or more, which no store reaches.
func decodeSlot(p []byte, offset int64) (s slot) {
	if len(p) < slotSize || string(p[:8]) != superMagic {
		return slot{}
	}
	s.offset, s.bytes = offset, p
	// Decoded before the checksum is known to be right, as that depends on the slot's uuid.
	s.decodeFields(p)
	if s.Encrypted() {
		s.Seed, s.Created, s.Manifest, s.Durable, s.Session, s.Before = 0, 0, 0, 0, 0, 0
	}
	s.ok = s.slotSum(offset, p) == binary.LittleEndian.Uint32(p[slotSumAt:]) && s.Epoch < 1<<63
	return s
}

// decodeFields reads the fields of the slot p, which is plain or decrypted.
func (s *Super) decodeFields(p []byte) {
	_, _ = binary.Decode(p[len(superMagic):], binary.LittleEndian, s) // p is long enough
}

// checkSupported refuses stores of other formats, and of features that it doesn't know.
func (s *Super) checkSupported() error {
	if s.Major != FormatMajor {
		return fmt.Errorf("%w: the store has format %d.%d, this release reads %d.x", errs.ErrFormat, s.Major, s.Minor, FormatMajor)
	}
	if unknown := s.Required &^ knownRequired; unknown != 0 {
		return fmt.Errorf("%w: the store (format %d.%d) needs features %#x, which this release (%d.%d) does not know",
			errs.ErrFormat, s.Major, s.Minor, unknown, FormatMajor, FormatMinor)
	}
	return nil
}
