package segment

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// sumHeader makes the checksum of a segment header right.
func sumHeader(page []byte) {
	id := checksum.New([16]byte(page[64:80]), page[3], binary.LittleEndian.Uint64(page[16:]))
	binary.LittleEndian.PutUint32(page[sumOffset:], id.Sum(0, page[:sumOffset]))
}

// sumFrames makes the header checksums of the frames of b right, as far as
// their lengths lead.
func sumFrames(b []byte, id checksum.Identity) {
	for off := int64(HeaderSize); off+frame.HeaderSize <= int64(len(b)); {
		h := b[off : off+frame.HeaderSize]
		binary.LittleEndian.PutUint32(h, id.Sum(off, h[4:]))
		size := 8 * int64(binary.LittleEndian.Uint32(h[8:]))
		if size < frame.HeaderSize {
			return
		}
		off += size
	}
}

// image is a vfs.FS whose every file has these bytes.
type image struct {
	vfs.FS // what is not implemented below is not used
	data   []byte
}

func (m image) Open(name string) (vfs.File, error) {
	return imageFile{Reader: bytes.NewReader(m.data), name: name}, nil
}

type imageFile struct {
	vfs.File // what is not implemented below is not used
	*bytes.Reader
	name string
}

func (f imageFile) Name() string                            { return f.name }
func (f imageFile) Size() (int64, error)                    { return f.Reader.Size(), nil }
func (f imageFile) Close() error                            { return nil }
func (f imageFile) StartRead(int64, int64)                  {}
func (f imageFile) Map(int64) (vfs.Mapping, error)          { return nil, errors.ErrUnsupported }
func (f imageFile) ReadAt(p []byte, off int64) (int, error) { return f.Reader.ReadAt(p, off) }

// forwardingID is what the checksums of the forwarding table that begins with page are bound to.
func (c Config) forwardingID(page []byte) checksum.Identity {
	return c.identity(filename.Forwarding, entry.FileNum(binary.LittleEndian.Uint64(page[16:])))
}
