package repository

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/disk/filename"
)

// Where docs/format.md puts the checksums that depend on a whole file.
const (
	footerBytes = 64
	footerMagic = "BRKR"
	sealBytes   = 48 + 40      // header and payload
	sealTags    = 2*16 + 4 + 4 // behind the payload of an encrypted seal
	sealKind    = 2
)

// sealed reports whether the first and last bytes of a file hold a checksum that depends on
// all of it: a run's footer has that of its directory, which has those of all chunks; a seal
// has that of the frame before, and so on; a remap's header has that of the rest. A journal
// file that a crash has ended has none. An encrypted run has a header page instead: nothing else
// was ever written under the life that it names.
func sealed(kind filename.Kind, ends []byte) bool {
	// What begins with no header page of ours says nothing, and counts as plain.
	life, err := crypt.PageLife(ends[:endBytes])
	encrypted := err == nil && !life.IsZero()
	switch kind {
	case filename.Run:
		if encrypted {
			return true
		}
		footer := ends[len(ends)-footerBytes:]
		return string(footer[4:8]) == footerMagic
	case filename.Journal, filename.Value:
		n := sealBytes
		if encrypted {
			n += sealTags
		}
		seal := ends[len(ends)-n:]
		return seal[12] == sealKind && binary.LittleEndian.Uint32(seal[8:]) == uint32(n/8)
	case filename.Remap:
		return true
	}
	return false
}
