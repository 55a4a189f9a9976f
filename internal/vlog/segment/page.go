package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
)

// Segments and forwarding tables begin with a page that has these bytes in the same places: magic,
// version of the format, flags, number, uuid, of an encrypted file what names its key and
// a tag, and, at its end, the checksum of it all.

// flagEncrypted is the flag of a page that names a file key id.
const flagEncrypted = 1

// The versions of the formats of segments and forwarding tables.
const (
	formatVersion     = 3
	forwardingVersion = 1
)

// pageForm is how the page of a file of the kind begins: its magic, and the version of its format.
func pageForm(k filename.Kind) (magic string, version uint16) {
	switch k {
	case filename.Value:
		return "BRKV", formatVersion
	case filename.Forwarding:
		return "BRKP", forwardingVersion
	}
	return "BRKJ", formatVersion
}

// finishPage writes what all header pages have into p, which has the rest; e and file key id are
// those of an encrypted file, e is nil for a plain one.
func finishPage(p []byte, kind filename.Kind, number entry.FileNum, uuid [16]byte, e *crypt.Encrypter, keyID crypt.FileKeyID) error {
	magic, version := pageForm(kind)
	copy(p, magic)
	binary.LittleEndian.PutUint16(p[4:], version)
	binary.LittleEndian.PutUint64(p[16:], uint64(number))
	copy(p[64:], uuid[:])
	if e != nil {
		if err := e.PutPage(p, keyID); err != nil {
			return err
		}
	}
	id := checksum.New(uuid, byte(kind), uint64(number))
	binary.LittleEndian.PutUint32(p[sumOffset:], id.Sum(0, p[:sumOffset]))
	return nil
}

// checkPage checks what finishPage has written, and returns the file key id that it names and what
// decrypts the file. It returns ErrHeader, errs.ErrForeign (a whole page of another store),
// errs.ErrFormat (of a newer release) or, of an encrypted file, the errors of decrypter. want is the
// file key id that was recorded for the file; nil accepts any.
func (c *Config) checkPage(p []byte, kind filename.Kind, number entry.FileNum, want *crypt.FileKeyID) (keyID crypt.FileKeyID, d *crypt.Decrypter, err error) {
	if keyID, err = checkPlain(p, kind, number, c.UUID); err != nil {
		return keyID, nil, err
	}
	if want != nil && keyID != *want {
		// A file of the right number may be of an older copy of the store: the file key id tells.
		return keyID, nil, fmt.Errorf("%w: key and file key id are %x %x, want %x %x", ErrHeader, keyID.Key, keyID.Salt, want.Key, want.Salt)
	}
	if d, err = c.openDecrypter(kind, number, keyID); d == nil || err != nil {
		return keyID, nil, err
	}
	// What an encrypted page says has a checksum, which anybody can make fit, and a tag.
	if err = d.CheckPage(p); err != nil {
		return keyID, nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return keyID, d, nil
}

// checkPlain is checkPage without keys: all but the tag.
func checkPlain(p []byte, kind filename.Kind, number entry.FileNum, uuid [16]byte) (keyID crypt.FileKeyID, err error) {
	magic, version := pageForm(kind)
	if len(p) < HeaderSize {
		return keyID, fmt.Errorf("%w: %d bytes are too short", ErrHeader, len(p))
	}
	if string(p[:4]) != magic {
		return keyID, fmt.Errorf("%w: magic is %q, want %q", ErrHeader, p[:4], magic)
	}
	// The checksum is computed for the store and number that the page names: if it is
	// right, a page that doesn't belong here is whole, and not damage.
	named, owner := entry.FileNum(binary.LittleEndian.Uint64(p[16:])), [16]byte(p[64:80])
	sum := binary.LittleEndian.Uint32(p[sumOffset:])
	if got := checksum.New(owner, byte(kind), uint64(named)).Sum(0, p[:sumOffset]); got != sum {
		return keyID, fmt.Errorf("%w: checksum is %08x, want %08x", ErrHeader, got, sum)
	}
	if owner != uuid {
		return keyID, fmt.Errorf("%w: the file belongs to store %x, not %x", errs.ErrForeign, owner, uuid)
	}
	if v, flags := binary.LittleEndian.Uint16(p[4:]), binary.LittleEndian.Uint16(p[6:]); v != version || flags&^flagEncrypted != 0 {
		return keyID, fmt.Errorf("%w: version %d of the file, flags %#x", errs.ErrFormat, v, flags)
	}
	if keyID, err = crypt.PageKeyID(p); err != nil {
		return keyID, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	if named != number {
		return keyID, fmt.Errorf("%w: number is %d, want %d", ErrHeader, named, number)
	}
	return keyID, nil
}
