package chunk

import (
	"encoding/binary"
	"fmt"
)

// Required marks a section that readers must not skip: one that doesn't know it
// refuses the chunk or directory.
const Required = 1

const sectionHead = 8 // u16 tag, u16 flags, u32 length

// AppendSection appends a section, for which payload appends the payload.
func AppendSection(b []byte, tag, flags uint16, payload func([]byte) []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint16(b, tag)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = payload(append(b, 0, 0, 0, 0))
	// The length is that without padding: the payload has no length of its own.
	binary.LittleEndian.PutUint32(b[start+4:], uint32(len(b)-start-sectionHead))
	for len(b)&7 != 0 {
		b = append(b, 0)
	}
	return b
}

// Sections calls fn for each section of b, up to an end mark (tag 0) or the end
// of b. fn says whether it knows the tag.
func Sections(b []byte, fn func(tag uint16, off int, payload []byte) (known bool, err error)) error {
	for off := 0; off < len(b); {
		if len(b)-off < sectionHead {
			return fmt.Errorf("section at %d is cut off", off)
		}
		tag := binary.LittleEndian.Uint16(b[off:])
		flags := binary.LittleEndian.Uint16(b[off+2:])
		n := uint64(binary.LittleEndian.Uint32(b[off+4:]))
		if tag == secEnd {
			return nil
		}
		// Compared before it is added: a length from the file may be anything.
		if n > uint64(len(b)-off-sectionHead) {
			return fmt.Errorf("section %d at %d is longer than what is left", tag, off)
		}
		known, err := fn(tag, off+sectionHead, b[off+sectionHead:][:n])
		if err != nil {
			return err
		}
		// A later release has written it, and says that the rest is misread without it.
		if !known && flags&Required != 0 {
			return fmt.Errorf("section %d is required but unknown", tag)
		}
		off += align8(sectionHead + int(n))
	}
	return nil
}
