package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Slots of SUPER and frames of the manifest are appended to files that earlier sessions, or
// another copy of the store, have written to. So each is encrypted under a key of its own.
// Checksums are of the bytes as they are on the disk: what is torn and what is damaged is
// found without keys. If the checksum is right and the tag doesn't fit, somebody has changed
// the bytes, or, of SUPER, the key is wrong.

// Keys returns the data keys of the store with the uuid. With create it first makes them, in
// a file of their own; then the first key is current. Errors wrap errs.ErrKey if a key is
// wrong or missing.
type Keys func(uuid [16]byte, create bool) (*crypt.Ring, error)

// checkFit returns errs.ErrKey for keys to a plain store, and for none to an encrypted one.
func (k Keys) checkFit(s *Super) error {
	switch {
	case s.Encrypted() && k == nil:
		return fmt.Errorf("%w: the store is encrypted, and Keys is nil", errs.ErrKey)
	case !s.Encrypted() && k != nil:
		// Somebody may have put a plain store in the place of an encrypted one.
		return fmt.Errorf("%w: Keys is set, and the store is not encrypted", errs.ErrKey)
	}
	return nil
}

// keyIDSize is the length of a file key id in SUPER, in a frame and in an edit.
const keyIDSize = 40

// appendKeyID appends the keyIDSize bytes of id.
func appendKeyID(b []byte, id crypt.FileKeyID) []byte {
	b = append(b, byte(id.Cipher), 0, 0, 0, 0, 0, 0, 0)
	return append(append(b, id.Key[:]...), id.Salt[:]...)
}

func decodeKeyID(p []byte) crypt.FileKeyID {
	return crypt.FileKeyID{Cipher: crypt.Cipher(p[0]), Key: crypt.ID(p[8:24]), Salt: [16]byte(p[24:keyIDSize])}
}

// The payload of an encrypted frame: the tag of the frame before, the file key id of this one, the
// edit, its tag.
const (
	framePrefix = crypt.TagSize + keyIDSize
	frameExtra  = framePrefix + crypt.TagSize
)

// encryption encrypts and decrypts the frames of one manifest.
type encryption struct {
	ring *crypt.Ring
	file crypt.File // the manifest, on which keys depend
}

func newEncryption(ring *crypt.Ring, uuid [16]byte, num entry.FileNum) *encryption {
	if ring == nil {
		return nil
	}
	file := crypt.File{UUID: uuid, Kind: byte(filename.Manifest), Number: uint64(num)}
	return &encryption{ring: ring, file: file}
}

// associatedData returns the associated data of a frame's tag. File and place are bound by the key.
func associatedData(h *frame.Header, before crypt.Tag) []byte {
	return binary.LittleEndian.AppendUint64(append(before[:], byte(h.Kind)), h.Number)
}

// encryptEdit encrypts the edit that follows the framePrefix bytes which are reserved at the
// start of the payload p, appends its tag, and sets that of h.
func (e *encryption) encryptEdit(p []byte, h *frame.Header, at frame.End) ([]byte, error) {
	copy(p, at.Tag[:])
	p = slices.Grow(p, crypt.TagSize)
	text := p[framePrefix:]
	// A key for each frame: after a crash another frame may be written at this offset, and one key
	// must never encrypt two texts under one nonce.
	tag, keyID, err := e.ring.EncryptOnce(text, text, e.file, crypt.Edit, at.Offset, associatedData(h, at.Tag))
	if err != nil {
		return nil, fmt.Errorf("encrypt an edit: %w", err)
	}
	h.Tag = tag
	appendKeyID(p[crypt.TagSize:crypt.TagSize], keyID)
	return append(p, tag[:]...), nil
}

// decryptEdit decrypts the payload p in place, sets the tag of h, and returns the edit in p and the
// tag of the frame before.
func (e *encryption) decryptEdit(p []byte, h *frame.Header, offset int64) (edit []byte, before crypt.Tag, err error) {
	if len(p) < frameExtra {
		return nil, before, fmt.Errorf("%w: %d bytes are no encrypted edit", frame.ErrFrame, len(p))
	}
	end := len(p) - crypt.TagSize
	before, h.Tag = crypt.Tag(p), crypt.Tag(p[end:])
	keyID, text := decodeKeyID(p[crypt.TagSize:]), p[framePrefix:end]
	err = e.ring.DecryptOnce(text, text, &h.Tag, e.file, keyID, crypt.Edit, offset, associatedData(h, before))
	return text, before, err
}

// slotKey encrypts the slots of one SUPER; a nil ring does nothing.
type slotKey struct {
	ring *crypt.Ring
	kind byte
}

// kindOfValues stands for the SUPER of a value directory in the key of a slot.
const kindOfValues = 'D'

func storeKey(ring *crypt.Ring) slotKey { return slotKey{ring, byte(filename.Super)} }

func valuesKey(ring *crypt.Ring) slotKey { return slotKey{ring, kindOfValues} }

// The fields of a slot from slotSecretAt on are encrypted where they are. A file key id and a tag
// follow.
const (
	slotSecretAt = 80
	slotKeyIDAt  = slotSecretAt + 48
	slotTagAt    = slotKeyIDAt + keyIDSize
)

// encryptSlot encrypts the slot p in place, all but its checksum.
func (k slotKey) encryptSlot(p []byte, uuid [16]byte, offset int64) error {
	if k.ring == nil {
		return nil
	}
	// The tag covers the fields in clear, too.
	text := p[slotSecretAt:slotKeyIDAt]
	tag, keyID, err := k.ring.EncryptOnce(text, text, k.cryptFile(uuid), crypt.Slot, offset, p[:slotSecretAt])
	if err != nil {
		return fmt.Errorf("encrypt SUPER: %w", err)
	}
	// After the encryption, which uses these places.
	appendKeyID(p[slotKeyIDAt:slotKeyIDAt], keyID)
	copy(p[slotTagAt:], tag[:])
	return nil
}

// decryptFields reads the fields that are encrypted. It returns errs.ErrKey and crypt.ErrTag if the tag
// doesn't fit.
func (s *slot) decryptFields(k slotKey) error {
	if !s.Encrypted() {
		return nil
	}
	if k.ring == nil {
		return fmt.Errorf("%w: a slot of SUPER is encrypted", errs.ErrKey)
	}
	// A copy: the slot is written again as it is.
	p := slices.Clone(s.bytes)
	text, tag, keyID := p[slotSecretAt:slotKeyIDAt], crypt.Tag(p[slotTagAt:]), decodeKeyID(p[slotKeyIDAt:])
	err := k.ring.DecryptOnce(text, text, &tag, k.cryptFile(s.UUID), keyID, crypt.Slot, s.offset, p[:slotSecretAt])
	if errors.Is(err, crypt.ErrTag) {
		// The slot's checksum is right, so this is no damage: the key is another store's.
		return fmt.Errorf("%w: SUPER is not encrypted under the data key %x: %w", errs.ErrKey, keyID.Key, err)
	}
	if err == nil {
		s.decodeFields(p)
	}
	return err
}

func (k slotKey) cryptFile(uuid [16]byte) crypt.File { return crypt.File{UUID: uuid, Kind: k.kind} }
