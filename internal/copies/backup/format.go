// Package backup sends the files of a store as one stream of bytes, whole or as an
// increment, and makes a store of such streams. docs/copies.md has the format.
//
// A stream is header, layout, files, end. Each record has a checksum that is bound to its offset,
// and the end has a hash over all: so a stream that is cut, damaged or put together of others is
// refused, and an increment names the very stream that it follows.
package backup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/manifest"
)

const (
	magic         = "BROCKBAK"
	formatVersion = 1

	headerSize  = 176
	headerKeyID = 96 // offset of the file key id of the stream in its header
	sumSize     = 4  // of the checksum that ends a header, and a description
	recordSize  = 24 // of the head of a record
	fileSize    = 24 // of the payload of a fileRecord
	endSize     = 56 // of the payload of an endRecord

	pieceBytes = 256 << 10 // most bytes of a file or the layout in one record
	kind       = 'B'       // kind of the stream in checksums; no file of a store has it
	streamName = "backup"  // name of the stream in reports of damage
)

// Digest identifies a stream: a SHA-256 of its header and of the heads of its records,
// which have the checksums of all the rest.
type Digest [32]byte

// header is the header of a stream, as its bytes are.
type header struct {
	Magic        [8]byte
	Format       uint16
	Major, Minor uint16 // format of the store
	Reserved     [2]byte
	UUID         [16]byte
	Seed         uint64
	Created      int64           // when the store was made, in Unix milliseconds
	Version      entry.Version   // the newest one in the stream
	Milli        int64           // when that was the newest version, in Unix milliseconds
	Follows      Digest          // digest of the stream before; zero: this one is full
	KeyID        crypt.FileKeyID // names the key of the layout; zero: the store is plain
	Later        [43]byte        // reserved
	Sum          uint32          // of what is before it
}

// encodeFields returns the bytes of v, which has only fields of fixed sizes.
func encodeFields(v any) []byte {
	p, _ := binary.Append(nil, binary.LittleEndian, v)
	return p
}

// decodeFields reads v from p, which is long enough.
func decodeFields(p []byte, v any) { _, _ = binary.Decode(p, binary.LittleEndian, v) }

// identity is what the checksums of the stream are bound to.
func (h *header) identity() checksum.Identity { return checksum.New(h.UUID, kind, 0) }

// newInfo returns what the header says of its stream.
func (h *header) newInfo() *Info {
	return &Info{Description: Description{UUID: h.UUID, Version: h.Version, Milli: h.Milli, Follows: h.Follows}}
}

// encodeHeader returns the bytes of the header.
func (h *header) encodeHeader() []byte {
	h.Magic, h.Format = [8]byte([]byte(magic)), formatVersion
	p := encodeFields(h)
	end := len(p) - sumSize
	binary.LittleEndian.PutUint32(p[end:], h.identity().Sum(0, p[:end]))
	return p
}

// decodeHeader decodes and checks a header.
func decodeHeader(p []byte) (*header, error) {
	h := new(header)
	decodeFields(p, h)
	// The checksum is computed for the store that the header names: any store's backup can be read.
	switch sum := h.identity().Sum(0, p[:len(p)-sumSize]); {
	case string(h.Magic[:]) != magic:
		return nil, foreign("this is no backup")
	case sum != h.Sum:
		return nil, errs.NewCorruption(streamName, 0, "header: checksum %#x, want %#x", sum, h.Sum)
	case h.Format != formatVersion:
		return nil, fmt.Errorf("%w: the backup has version %d, this release reads %d", errs.ErrFormat, h.Format, formatVersion)
	case !h.KeyID.IsZero() && !h.KeyID.Cipher.Valid():
		return nil, fmt.Errorf("%w: the backup is encrypted by %v", errs.ErrFormat, h.KeyID.Cipher)
	// A later release may have put something there that must be understood.
	case !allZero(h.Reserved[:]) || !allZero(h.Later[:]):
		return nil, fmt.Errorf("%w: the header has fields of a later release", errs.ErrFormat)
	case h.Major != manifest.FormatMajor:
		return nil, fmt.Errorf("%w: the backup is of a store of format %d.%d, this release reads %d.x", errs.ErrFormat, h.Major, h.Minor, manifest.FormatMajor)
	}
	return h, nil
}

// recordKind says what a record is.
type recordKind byte

const (
	layoutRecord recordKind = 1 // the next bytes of the layout
	fileRecord   recordKind = 2 // a file begins
	dataRecord   recordKind = 3 // its next bytes
	zerosRecord  recordKind = 4 // its next bytes are zeros, and there is no payload
	endRecord    recordKind = 5
	keysRecord   recordKind = 6 // first, if the store is encrypted: the next bytes of the keyring
)

// record is the head of a record, as its bytes are. Both checksums are bound to the offsets of
// what they are of in the stream.
type record struct {
	Sum     uint32 // of the rest of the head
	Payload uint32 // of the payload
	Kind    recordKind
	Codec   codec.Codec
	_       [2]byte
	Stored  uint32 // bytes of the payload
	Length  uint32 // bytes that it stands for
	_       [4]byte
}

// encodeHead writes the head of a record at offset off to p.
func (r *record) encodeHead(p []byte, id checksum.Identity, off int64) {
	_, _ = binary.Encode(p, binary.LittleEndian, r)
	binary.LittleEndian.PutUint32(p, id.Sum(off, p[4:recordSize]))
}

// decodeRecord decodes and checks the head of a record.
func decodeRecord(p []byte, id checksum.Identity, off int64) (r record, err error) {
	decodeFields(p, &r)
	if got := id.Sum(off, p[4:recordSize]); got != r.Sum {
		return r, errs.NewCorruption(streamName, off, "record: checksum %#x, want %#x", got, r.Sum)
	}
	if !r.isValid() || p[10]|p[11]|p[20]|p[21]|p[22]|p[23] != 0 {
		return r, errs.NewCorruption(streamName, off, "record: kind %d, codec %d, %d bytes for %d, or reserved bytes", r.Kind, r.Codec, r.Stored, r.Length)
	}
	return r, nil
}

// lengths bounds record.Length for each kind.
var lengths = map[recordKind]struct{ least, most uint32 }{
	layoutRecord: {1, pieceBytes},
	fileRecord:   {fileSize, fileSize},
	dataRecord:   {1, pieceBytes},
	zerosRecord:  {1, pieceBytes},
	endRecord:    {endSize, endSize},
	keysRecord:   {1, pieceBytes},
}

// isValid compares the lengths with what the kind allows.
func (r *record) isValid() bool {
	if allowed, ok := lengths[r.Kind]; !ok || r.Length < allowed.least || r.Length > allowed.most {
		return false
	}
	if r.Codec == codec.Zstd {
		return r.Kind == dataRecord && r.Stored > 0 && r.Stored < r.Length
	}
	stored := r.Length
	if r.Kind == zerosRecord {
		stored = 0
	}
	return r.Codec == codec.None && r.Stored == stored
}

// File is a file of the store that a stream is a backup of.
type File struct {
	Name  filename.Name
	Size  int64  // in bytes
	Print uint32 // checksum of its first and its last bytes: what tells files of one name apart
}

// encodeFile returns the payload of a fileRecord. kept says that a stream before has the bytes.
func (f *File) encodeFile(kept bool) []byte {
	p := make([]byte, fileSize)
	p[0] = byte(f.Name.Kind)
	if kept {
		p[1] = 1
	}
	binary.LittleEndian.PutUint32(p[4:], f.Print)
	binary.LittleEndian.PutUint64(p[8:], uint64(f.Name.Number))
	binary.LittleEndian.PutUint64(p[16:], uint64(f.Size))
	return p
}

// decodeFile reads the payload of a fileRecord. ok is false for a file that can't be in a backup.
func decodeFile(p []byte) (f File, kept, ok bool) {
	f = File{
		Name:  filename.New(filename.Kind(p[0]), entry.FileNum(binary.LittleEndian.Uint64(p[8:]))),
		Size:  int64(binary.LittleEndian.Uint64(p[16:])),
		Print: binary.LittleEndian.Uint32(p[4:]),
	}
	switch f.Name.Kind {
	// Only these: SUPER, manifest and keyring are made anew, so no stream can replace them.
	case filename.Journal, filename.Value, filename.Run, filename.Forwarding:
		ok = f.Name.Number != 0 && f.Size >= 0 && p[1] <= 1 && p[2]|p[3] == 0
	}
	return f, p[1] == 1, ok
}

// ending is the payload of the last record, as its bytes are.
type ending struct {
	Files   uint64 // of the store
	Bytes   uint64 // of these files
	Records uint64 // before this one
	Digest  Digest
}

// foreign is an errs.ErrForeign with a text of its own.
type foreign string

// Error is the text.
func (f foreign) Error() string { return "brock: " + string(f) }

// Unwrap makes it an errs.ErrForeign.
func (foreign) Unwrap() error { return errs.ErrForeign }

// allZero reports whether b has only zeros.
func allZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// withLength returns n bytes, in the memory of p if there is room.
func withLength(p []byte, n int) []byte { return slices.Grow(p[:0], n)[:n] }
