package run

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
)

// The last bytes of a run file: they lead to the directory, and say which file of which store it
// is.

const (
	footerSize    = 64         // bytes
	footerMagic   = 0x524b5242 // "BRKR"
	formatVersion = 1
)

// footer is the last footerSize bytes of a file.
type footer struct {
	checksum  uint32      // of the rest, bound to its place in the file
	dirOffset uint64      // where the directory begins
	dirSize   uint64      // bytes of the directory
	dirSum    uint32      // checksum of the directory; 0 in an encrypted file
	owner     chunk.Owner // the file

	// Of an encrypted file; it has dirTag instead of dirSum.
	keyID  crypt.FileKeyID // file key id
	dirTag crypt.Tag       // of the directory
}

// encodeFooter returns the footer for this offset; e is nil for a plain file.
func (f *footer) encodeFooter(id checksum.Identity, offset int64, e *crypt.Encrypter) (b []byte, err error) {
	b = make([]byte, encryptedFooterSize)
	binary.LittleEndian.PutUint32(b[4:], footerMagic)
	binary.LittleEndian.PutUint16(b[8:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], f.dirOffset)
	binary.LittleEndian.PutUint64(b[24:], f.dirSize)
	binary.LittleEndian.PutUint32(b[32:], f.dirSum)
	copy(b[40:], f.owner.UUID[:])
	binary.LittleEndian.PutUint64(b[56:], uint64(f.owner.Num))
	if e == nil {
		b = b[:footerSize]
	} else if err = f.encryptFooter(b, e, offset); err != nil {
		return nil, err
	}
	// Last: it covers what encryption has added, too.
	f.checksum = id.Sum(offset, b[4:])
	binary.LittleEndian.PutUint32(b, f.checksum)
	return b, nil
}

// decodeFooter decodes and checks the footer b at offset of the file id. The length of b says
// whether the footer of a plain or of an encrypted file is expected.
func decodeFooter(b []byte, id checksum.Identity, offset int64, name string) (*footer, error) {
	f := &footer{
		checksum:  binary.LittleEndian.Uint32(b),
		dirOffset: binary.LittleEndian.Uint64(b[16:]),
		dirSize:   binary.LittleEndian.Uint64(b[24:]),
		dirSum:    binary.LittleEndian.Uint32(b[32:]),
		owner:     ownerIn(b),
	}
	if got := id.Sum(offset, b[4:]); got != f.checksum {
		return nil, errs.NewCorruption(name, offset, "footer: checksum %#x, want %#x", got, f.checksum)
	}
	// The checksum is right, so b is a footer: another format is no damage.
	if m := binary.LittleEndian.Uint32(b[4:]); m != footerMagic {
		return nil, errs.NewCorruption(name, offset, "footer: magic %#x", m)
	}
	// By the length that the caller asked for, not by what b says: a plain footer must not pass for
	// that of an encrypted file, as it has no tag.
	version := uint16(formatVersion)
	if len(b) == encryptedFooterSize {
		version = encryptedVersion
		f.dirTag = crypt.Tag(b[footerDirTag:])
		f.keyID = crypt.FileKeyID{Key: crypt.ID(b[footerKey:]), Salt: [16]byte(b[footerKeyID:]), Cipher: crypt.Cipher(b[footerCipher])}
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != version || binary.LittleEndian.Uint16(b[10:]) != 0 {
		return nil, fmt.Errorf("%w: %s has run format %d", errs.ErrFormat, name, v)
	}
	// The directory ends where the footer begins.
	if f.dirOffset > uint64(offset) || f.dirSize != uint64(offset)-f.dirOffset {
		return nil, errs.NewCorruption(name, offset, "footer: directory of %d bytes at %d", f.dirSize, f.dirOffset)
	}
	return f, nil
}

// ownerIn returns the file that the footer b names.
func ownerIn(b []byte) chunk.Owner {
	return chunk.Owner{UUID: [16]byte(b[40:]), Num: entry.FileNum(binary.LittleEndian.Uint64(b[56:]))}
}

// The footer of an encrypted file is that of a plain one, with another version, its
// cipher in reserved bytes and without the directory's checksum; and then:
const (
	encryptedFooterSize = 128 // bytes
	encryptedVersion    = 2   // format version of an encrypted file

	footerCipher = 12 // offsets of the parts
	footerDirTag = 64
	footerTag    = 80
	footerKey    = 96
	footerKeyID  = 112
)

// footerData is what the tag of the footer b covers: all but its checksum and the tag itself.
func footerData(b []byte) []byte {
	return append(bytes.Clone(b[4:footerTag]), b[footerKey:encryptedFooterSize]...)
}

// encryptFooter makes b, the footer of a plain file with room behind, that of an encrypted one.
func (f *footer) encryptFooter(b []byte, e *crypt.Encrypter, offset int64) error {
	b[8], b[footerCipher] = encryptedVersion, byte(f.keyID.Cipher)
	copy(b[footerDirTag:], f.dirTag[:])
	copy(b[footerKey:], f.keyID.Key[:])
	copy(b[footerKeyID:], f.keyID.Salt[:])
	// No byte is hidden: the file key id is needed before there is a key. But nobody can forge it.
	tag, err := chunk.Encrypt(nil, crypt.Footer, offset, len(b), footerData(b), e)
	copy(b[footerTag:], tag[:])
	return err
}

// verifyFooter checks that the footer b, which lies at offset, has the expected file key id and the
// right tag. A plain file has neither.
func (o *origin) verifyFooter(ft *footer, b []byte, offset int64) error {
	if o.Key == nil {
		return nil
	}
	// The manifest says by which key a file is read. A file that chose another one could be an old one
	// that was put back.
	if ft.keyID != o.keyID {
		return errs.NewCorruption(o.Name, offset, "footer: another file key id than expected")
	}
	tag := crypt.Tag(b[footerTag:])
	return o.damagedPart(offset, "footer", o.Key.Decrypt(nil, nil, &tag, crypt.Footer, offset, 0, footerData(b)))
}

// footerSize is the length of the file's footer.
func (o *origin) footerSize() int {
	if o.Key != nil {
		return encryptedFooterSize
	}
	return footerSize
}

// findFooter returns the footer of file num, plain or encrypted, of whatever store; nil if it is
// damaged.
func findFooter(f *pageio.File, num entry.FileNum) *footer {
	for _, n := range []int64{footerSize, encryptedFooterSize} {
		b, at := make([]byte, n), f.Size()-n
		if at < 0 || f.ReadFull(b, at) != nil {
			return nil
		}
		owner := ownerIn(b)
		if ft, err := decodeFooter(b, owner.ID(), at, ""); err == nil && owner.Num == num {
			return ft
		}
	}
	return nil
}
