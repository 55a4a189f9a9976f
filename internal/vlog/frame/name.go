package frame

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// Name names one frame exactly: no other frame of the store, or of a copy of it that went on
// from an earlier state, has the same name. Its checksum, or its tag, depends on all frames
// before. A number alone proves nothing: each copy has a frame of that number.
type Name struct {
	File   entry.FileNum   // the file that the frame is in
	KeyID  crypt.FileKeyID // names the key of that file; zero: it is plain, or each frame has its own
	Number uint64          // of the frame; 0: there is none
	Sum    uint32          // checksum of its header
	Tag    crypt.Tag       // zero: it is plain
}

// String shows the fields by name.
func (n Name) String() string {
	text := fmt.Sprintf("File:%d Frame:%d Sum:%08x", n.File, n.Number, n.Sum)
	if n.KeyID.IsZero() {
		return text
	}
	return fmt.Sprintf("%s KeyID:%x", text, n.KeyID.Salt)
}

// End is the place behind a frame: where a file ends, or its durable part.
type End struct {
	Name
	Offset int64 // in the file, in bytes
}

// String shows the fields by name.
func (e End) String() string { return fmt.Sprintf("{%v Offset:%d}", e.Name, e.Offset) }

// End is the end of the file with this number and file key id before c.
func (c Cursor) End(file entry.FileNum, keyID crypt.FileKeyID) End {
	return End{Name{File: file, KeyID: keyID, Number: c.Next - 1, Sum: c.Chain, Tag: c.Tag}, c.Offset}
}

// After is the cursor behind e.
func (e End) After() Cursor {
	return Cursor{Offset: e.Offset, Next: e.Number + 1, Chain: e.Sum, Tag: e.Tag}
}
