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

// Segments and remaps begin with a page that has these bytes in the same places: magic,
// version of the format, flags, number, uuid, of an encrypted file what names its key and
// a tag, and, at its end, the checksum of it all.

// flagEncrypted is the flag of a page that names a life.
const flagEncrypted = 1

func magic(k filename.Kind) string {
	switch k {
	case filename.Value:
		return "BRKV"
	case filename.Remap:
		return "BRKP"
	}
	return "BRKJ"
}

// finishPage writes what all header pages have into p, which has the rest; e and life are
// those of an encrypted file, e is nil for a plain one.
func finishPage(p []byte, kind filename.Kind, version uint16, number entry.FileNum, uuid [16]byte, e *crypt.Encrypter, life crypt.Life) error {
	copy(p, magic(kind))
	binary.LittleEndian.PutUint16(p[4:], version)
	binary.LittleEndian.PutUint64(p[16:], uint64(number))
	copy(p[64:], uuid[:])
	if e != nil {
		if err := e.PutPage(p, life); err != nil {
			return err
		}
	}
	id := checksum.New(uuid, byte(kind), uint64(number))
	binary.LittleEndian.PutUint32(p[sumOffset:], id.Sum(0, p[:sumOffset]))
	return nil
}

// checkPage checks what finishPage has written, but for its tag, and returns the life that
// it names. It returns ErrHeader, errs.ErrForeign (a whole page of another store) or
// errs.ErrFormat (of a newer release).
func checkPage(p []byte, kind filename.Kind, version uint16, number entry.FileNum, uuid [16]byte) (life crypt.Life, err error) {
	if len(p) < HeaderSize {
		return life, fmt.Errorf("%w: %d bytes are too short", ErrHeader, len(p))
	}
	if string(p[:4]) != magic(kind) {
		return life, fmt.Errorf("%w: magic is %q, want %q", ErrHeader, p[:4], magic(kind))
	}
	// The checksum is computed for the store and number that the page names: if it is
	// right, a page that doesn't belong here is whole, and not damage.
	named, owner := entry.FileNum(binary.LittleEndian.Uint64(p[16:])), [16]byte(p[64:80])
	sum := binary.LittleEndian.Uint32(p[sumOffset:])
	if got := checksum.New(owner, byte(kind), uint64(named)).Sum(0, p[:sumOffset]); got != sum {
		return life, fmt.Errorf("%w: checksum is %08x, want %08x", ErrHeader, got, sum)
	}
	if owner != uuid {
		return life, fmt.Errorf("%w: the file belongs to store %x, not %x", errs.ErrForeign, owner, uuid)
	}
	if v, flags := binary.LittleEndian.Uint16(p[4:]), binary.LittleEndian.Uint16(p[6:]); v != version || flags&^flagEncrypted != 0 {
		return life, fmt.Errorf("%w: version %d of the file, flags %#x", errs.ErrFormat, v, flags)
	}
	if life, err = crypt.PageLife(p); err != nil {
		return life, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	if named != number {
		return life, fmt.Errorf("%w: number is %d, want %d", ErrHeader, named, number)
	}
	return life, nil
}
