package run

import (
	"bytes"
	"encoding/binary"
	"fmt"

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

// footer is the last bytes of a file, in the order of the fields. A plain file has the first
// footerSize of them.
type footer struct {
	Checksum  uint32       // of the rest, bound to its place in the file
	Magic     uint32       // footerMagic
	Format    uint16       // formatVersion, or encryptedVersion
	Required  uint16       // features that a reader must know
	Cipher    crypt.Cipher // of an encrypted file
	_         [3]byte
	DirOffset uint64 // where the directory begins
	DirSize   uint64 // bytes of the directory
	DirSum    uint32 // checksum of the directory; 0 in an encrypted file
	_         uint32
	Owner     chunk.Owner // the file

	// Of an encrypted file:
	DirTag crypt.Tag // of the directory
	Tag    crypt.Tag // of the footer
	Key    crypt.ID  // with Salt and Cipher, the file key id
	Salt   [16]byte
}

const (
	encryptedFooterSize = 128 // bytes
	encryptedVersion    = 2   // format version of an encrypted file

	footerDirTag = 64 // offsets of the parts of an encrypted one
	footerTag    = 80
	footerKey    = 96
	footerKeyID  = 112
)

// keyID is the file key id; zero if the file is plain.
func (f *footer) keyID() (id crypt.FileKeyID) {
	if f.Format == encryptedVersion {
		id = crypt.FileKeyID{Key: f.Key, Salt: f.Salt, Cipher: f.Cipher}
	}
	return id
}

// encodeFooter returns the footer for this offset; e is nil for a plain file.
func (f *footer) encodeFooter(offset int64, e *crypt.Encrypter) (b []byte, err error) {
	f.Magic, f.Format = footerMagic, formatVersion
	if e != nil {
		f.Format = encryptedVersion
	}
	b, _ = binary.Append(nil, binary.LittleEndian, f) // of fixed size: it can't fail
	if e == nil {
		b = b[:footerSize]
	} else {
		// No byte is hidden: the file key id is needed before there is a key. But nobody can forge
		// it.
		f.Tag, err = chunk.Encrypt(nil, crypt.Footer, offset, len(b), footerData(b), e)
		copy(b[footerTag:], f.Tag[:])
	}
	// Last: it covers what encryption has added, too.
	f.Checksum = f.Owner.ID().Sum(offset, b[4:])
	binary.LittleEndian.PutUint32(b, f.Checksum)
	return b, err
}

// decodeFooter decodes and checks the footer b at offset of the file of owner; nil: of the file
// that it names. The length of b says whether the footer of a plain or of an encrypted file is
// expected.
func decodeFooter(b []byte, owner *chunk.Owner, offset int64, name string) (*footer, error) {
	f := new(footer)
	_, _ = binary.Decode(append(bytes.Clone(b), make([]byte, encryptedFooterSize-len(b))...), binary.LittleEndian, f)
	if owner == nil {
		owner = &f.Owner
	}
	if got := owner.ID().Sum(offset, b[4:]); got != f.Checksum {
		return nil, errs.NewCorruption(name, offset, "footer: checksum %#x, want %#x", got, f.Checksum)
	}
	// The checksum is right, so b is a footer: another format is no damage.
	if f.Magic != footerMagic {
		return nil, errs.NewCorruption(name, offset, "footer: magic %#x", f.Magic)
	}
	// By the length that the caller asked for, not by what b says: a plain footer must not pass for
	// that of an encrypted file, as it has no tag.
	version := uint16(formatVersion)
	if len(b) == encryptedFooterSize {
		version = encryptedVersion
	}
	if f.Format != version || f.Required != 0 {
		return nil, fmt.Errorf("%w: %s has run format %d", errs.ErrFormat, name, f.Format)
	}
	// The directory ends where the footer begins.
	if f.DirOffset > uint64(offset) || f.DirSize != uint64(offset)-f.DirOffset {
		return nil, errs.NewCorruption(name, offset, "footer: directory of %d bytes at %d", f.DirSize, f.DirOffset)
	}
	return f, nil
}

// footerData is what the tag of the footer b covers: all but its checksum and the tag itself.
func footerData(b []byte) []byte {
	return append(bytes.Clone(b[4:footerTag]), b[footerKey:encryptedFooterSize]...)
}

// verifyFooter checks that the footer b, which lies at offset, has the expected file key id and the
// right tag. A plain file has neither.
func (o *origin) verifyFooter(ft *footer, b []byte, offset int64) error {
	if o.Key == nil {
		return nil
	}
	// The manifest says by which key a file is read. A file that chose another one could be an old
	// one that was put back.
	if ft.keyID() != o.keyID {
		return errs.NewCorruption(o.Name, offset, "footer: another file key id than expected")
	}
	return o.damagedPart(offset, "footer", o.Key.Decrypt(nil, nil, &ft.Tag, crypt.Footer, offset, 0, footerData(b)))
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
		if ft, err := decodeFooter(b, nil, at, ""); err == nil && ft.Owner.Num == num {
			return ft
		}
	}
	return nil
}
