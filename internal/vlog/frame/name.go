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

// End is the place behind a frame: where a file ends, or its durable part, and where the next frame
// of the chain goes. Before the first frame of a file Name has the file itself, and what that frame
// says of the one before: its number, checksum and tag.
type End struct {
	Name
	Offset int64 // in the file, in bytes
}

// String shows the fields by name.
func (e End) String() string { return fmt.Sprintf("{%v Offset:%d}", e.Name, e.Offset) }

// Continues reports whether the frame with the header h is the next one of the chain. It does
// not compare the tags of encrypted frames: the Decrypter does.
func (e *End) Continues(h *Header) bool { return h.Number == e.Number+1 && h.Chain == e.Sum }

// Advance moves e behind the frame with the header h.
func (e *End) Advance(h *Header) {
	e.Offset += h.Size
	e.Number, e.Sum, e.Tag = h.Number, h.Sum, h.Tag
}
