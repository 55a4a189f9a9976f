// Package backup sends the files of a store as one stream of bytes, whole or as an
// increment, and makes a store of such streams. docs/copies.md has the format.
//
// A stream is header, layout, files, end. Each record has a checksum that is bound to its offset,
// and the end has a hash over all: so a stream that is cut, damaged or put together of others is
// refused, and an increment names the very stream that it follows.
package backup

import (
	"encoding/binary"
	"fmt"

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

// header is the header of a stream.
type header struct {
	major, minor uint16 // format of the store
	uuid         [16]byte
	seed         uint64
	created      int64         // when the store was made, in Unix milliseconds
	version      entry.Version // the newest one in the stream
	milli        int64         // when that was the newest version, in Unix milliseconds
	follows      Digest        // digest of the stream before; zero: this one is full

	keyID crypt.FileKeyID // names the key of the layout; zero: the store is plain
}

// identity is what the checksums of the stream are bound to.
func (h *header) identity() checksum.Identity { return checksum.New(h.uuid, kind, 0) }

// encodeHeader returns the bytes of the header.
func (h *header) encodeHeader() []byte {
	p := make([]byte, headerSize)
	copy(p, magic)
	binary.LittleEndian.PutUint16(p[8:], formatVersion)
	binary.LittleEndian.PutUint16(p[10:], h.major)
	binary.LittleEndian.PutUint16(p[12:], h.minor)
	copy(p[16:], h.uuid[:])
	binary.LittleEndian.PutUint64(p[32:], h.seed)
	binary.LittleEndian.PutUint64(p[40:], uint64(h.created))
	binary.LittleEndian.PutUint64(p[48:], uint64(h.version))
	binary.LittleEndian.PutUint64(p[56:], uint64(h.milli))
	copy(p[64:], h.follows[:])
	copy(p[headerKeyID:], h.keyID.Key[:])
	copy(p[headerKeyID+16:], h.keyID.Salt[:])
	p[headerKeyID+32] = byte(h.keyID.Cipher)
	end := len(p) - sumSize
	binary.LittleEndian.PutUint32(p[end:], h.identity().Sum(0, p[:end]))
	return p
}

// decodeHeader decodes and checks a header.
func decodeHeader(p []byte) (*header, error) {
	if string(p[:len(magic)]) != magic {
		return nil, foreign("this is no backup")
	}
	h := &header{
		major: binary.LittleEndian.Uint16(p[10:]), minor: binary.LittleEndian.Uint16(p[12:]),
		uuid: [16]byte(p[16:32]), seed: binary.LittleEndian.Uint64(p[32:]),
		created: int64(binary.LittleEndian.Uint64(p[40:])), version: entry.Version(binary.LittleEndian.Uint64(p[48:])),
		milli: int64(binary.LittleEndian.Uint64(p[56:])), follows: Digest(p[64:96]),
	}
	end := len(p) - sumSize
	// The checksum is computed for the store that the header names: any store's backup can be read.
	if got, want := h.identity().Sum(0, p[:end]), binary.LittleEndian.Uint32(p[end:]); got != want {
		return nil, errs.NewCorruption(streamName, 0, "header: checksum %#x, want %#x", got, want)
	}
	if v := binary.LittleEndian.Uint16(p[8:]); v != formatVersion {
		return nil, fmt.Errorf("%w: the backup has version %d, this release reads %d", errs.ErrFormat, v, formatVersion)
	}
	l := p[headerKeyID:]
	h.keyID = crypt.FileKeyID{Key: crypt.ID(l), Salt: [16]byte(l[16:]), Cipher: crypt.Cipher(l[32])}
	if !h.keyID.IsZero() && !h.keyID.Cipher.Valid() {
		return nil, fmt.Errorf("%w: the backup is encrypted by %v", errs.ErrFormat, h.keyID.Cipher)
	}
	// A later release may have put something there that must be understood.
	if p[14]|p[15] != 0 || !allZero(p[headerKeyID+33:end]) {
		return nil, fmt.Errorf("%w: the header has fields of a later release", errs.ErrFormat)
	}
	if h.major != manifest.FormatMajor {
		return nil, fmt.Errorf("%w: the backup is of a store of format %d.%d, this release reads %d.x", errs.ErrFormat, h.major, h.minor, manifest.FormatMajor)
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

// record is the head of a record. Its checksum and that of the payload are bound to
// their offsets in the stream.
type record struct {
	kind   recordKind
	codec  codec.Codec
	stored uint32 // bytes of the payload
	length uint32 // bytes that it stands for
}

// encodeHead writes the head of a record at offset off to p. payload is the plain checksum of its
// payload.
func (r *record) encodeHead(p []byte, id checksum.Identity, off int64, payload uint32) {
	clear(p[:recordSize])
	binary.LittleEndian.PutUint32(p[4:], payload)
	p[8], p[9] = byte(r.kind), byte(r.codec)
	binary.LittleEndian.PutUint32(p[12:], r.stored)
	binary.LittleEndian.PutUint32(p[16:], r.length)
	binary.LittleEndian.PutUint32(p, id.Sum(off, p[4:recordSize]))
}

// decodeRecord also returns the checksum of the payload.
func decodeRecord(p []byte, id checksum.Identity, off int64) (r record, payload uint32, err error) {
	if got, want := id.Sum(off, p[4:recordSize]), binary.LittleEndian.Uint32(p); got != want {
		return r, 0, errs.NewCorruption(streamName, off, "record: checksum %#x, want %#x", got, want)
	}
	r = record{recordKind(p[8]), codec.Codec(p[9]), binary.LittleEndian.Uint32(p[12:]), binary.LittleEndian.Uint32(p[16:])}
	err = r.checkLengths()
	if err == nil && p[10]|p[11]|p[20]|p[21]|p[22]|p[23] != 0 {
		err = errStream("reserved bytes")
	}
	if err != nil {
		return r, 0, &errs.Corruption{File: streamName, Offset: off, Reason: "record", Err: err}
	}
	return r, binary.LittleEndian.Uint32(p[4:]), nil
}

// lengths bounds record.length for each kind.
var lengths = map[recordKind]struct{ least, most uint32 }{
	layoutRecord: {1, pieceBytes},
	fileRecord:   {fileSize, fileSize},
	dataRecord:   {1, pieceBytes},
	zerosRecord:  {1, pieceBytes},
	endRecord:    {endSize, endSize},
	keysRecord:   {1, pieceBytes},
}

// checkLengths compares the lengths with what the kind allows.
func (r *record) checkLengths() error {
	allowed, ok := lengths[r.kind]
	ok = ok && r.length >= allowed.least && r.length <= allowed.most
	switch {
	case r.codec == codec.Zstd:
		ok = ok && r.kind == dataRecord && r.stored > 0 && r.stored < r.length
	case r.kind == zerosRecord:
		ok = ok && r.codec == codec.None && r.stored == 0
	default:
		ok = ok && r.codec == codec.None && r.stored == r.length
	}
	if !ok {
		return fmt.Errorf("kind %d, codec %d, %d bytes for %d", r.kind, r.codec, r.stored, r.length)
	}
	return nil
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

// decodeFile reads the payload of a fileRecord, and checks it.
func decodeFile(p []byte) (f File, kept bool, err error) {
	f = File{
		Name:  filename.New(filename.Kind(p[0]), entry.FileNum(binary.LittleEndian.Uint64(p[8:]))),
		Size:  int64(binary.LittleEndian.Uint64(p[16:])),
		Print: binary.LittleEndian.Uint32(p[4:]),
	}
	if p[1] > 1 || p[2]|p[3] != 0 {
		return f, false, errStream("reserved bytes")
	}
	return f, p[1] == 1, f.checkFile()
}

// checkFile returns an error for a file that can't be in a backup.
func (f *File) checkFile() error {
	switch f.Name.Kind {
	// Only these: SUPER, manifest and keyring are made anew, so no stream can replace them.
	case filename.Journal, filename.Value, filename.Run, filename.Forwarding:
		if f.Name.Number != 0 && f.Size >= 0 {
			return nil
		}
	}
	return fmt.Errorf("%v, file %d of %d bytes", f.Name.Kind, f.Name.Number, f.Size)
}

// ending is the payload of the last record.
type ending struct {
	files   uint64 // of the store
	bytes   uint64 // of these files
	records uint64 // before this one
	digest  Digest
}

// encodeEnding returns the payload of the end record.
func (e *ending) encodeEnding() []byte {
	p := make([]byte, endSize)
	binary.LittleEndian.PutUint64(p, e.files)
	binary.LittleEndian.PutUint64(p[8:], e.bytes)
	binary.LittleEndian.PutUint64(p[16:], e.records)
	copy(p[24:], e.digest[:])
	return p
}

// decodeEnding reads the payload of the end record.
func decodeEnding(p []byte) ending {
	return ending{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:]), Digest(p[24:endSize])}
}

// foreign is an errs.ErrForeign with a text of its own.
type foreign string

// Error is the text.
func (f foreign) Error() string { return "brock: " + string(f) }

// Unwrap makes it an errs.ErrForeign.
func (foreign) Unwrap() error { return errs.ErrForeign }

// errStream says what is wrong with a record whose checksums are right.
type errStream string

// Error is the text; the reader adds the offset.
func (e errStream) Error() string { return string(e) }

// allZero reports whether b has only zeros.
func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// withLength returns n bytes, in the memory of p if there is room.
func withLength(p []byte, n int) []byte {
	if cap(p) < n {
		p = make([]byte, n, max(n, pieceBytes))
	}
	return p[:n]
}
