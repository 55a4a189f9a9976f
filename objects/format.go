package objects

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/brockdb/brock"
)

// Digest is the SHA-256 of a content.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns what String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is the reverse of MarshalText. It returns ErrInvalid for any other text.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return errDigest
	}
	var read Digest
	if _, err := hex.Decode(read[:], text); err != nil {
		return errDigest
	}
	*d = read
	return nil
}

// ParseDigest returns the digest of which String has returned text, else ErrInvalid.
func ParseDigest(text string) (d Digest, err error) {
	err = d.UnmarshalText([]byte(text))
	return d, err
}

// Info is what is known of an object. Its bytes belong to the receiver.
type Info struct {
	Key      []byte    // of the object; of a blob its digest
	Size     int64     // bytes
	Digest   Digest    // SHA-256 of the content
	Type     string    // content type
	Meta     []byte    // of the caller
	Time     time.Time // when it was written, by Options.Now of the store; resolution 1 ms
	Refs     uint64    // references to a blob; 0 for an object
	PartSize int       // bytes in each part
}

// headKind says what a head is of.
type headKind byte

const (
	objectHead headKind = 1
	blobHead   headKind = 2
)

const headFormat = 1

// headSize is the length of a head without content type and meta.
const headSize = 80

// DefaultPartSize is how many bytes a part has.
const DefaultPartSize = 1 << 20

// Bounds of Options.PartSize.
const (
	minPart = 1 << 10
	maxPart = 64 << 20
)

// Bounds of what a head has.
const (
	MaxType = 255      // bytes of a content type
	MaxMeta = 64 << 10 // bytes of meta
)

// objectID names the parts of one Put.
type objectID [16]byte

// head is what is known of an object without its parts.
type head struct {
	kind     headKind
	id       objectID
	size     int64 // of the content in bytes
	partSize int64 // bytes in all parts but the last
	millis   int64 // when it was written
	digest   Digest
	refs     uint64
	typ      string
	meta     []byte

	unwritten bool // it has no parts, as the content was there already; not encoded
}

// encodeHead returns the bytes of h.
func (h *head) encodeHead() []byte {
	b := make([]byte, headSize, headSize+len(h.typ)+len(h.meta))
	b[0], b[1] = headFormat, byte(h.kind)
	copy(b[2:], h.id[:])
	binary.LittleEndian.PutUint64(b[18:], uint64(h.size))
	binary.LittleEndian.PutUint32(b[26:], uint32(h.partSize))
	binary.LittleEndian.PutUint64(b[30:], uint64(h.millis))
	copy(b[38:], h.digest[:])
	binary.LittleEndian.PutUint64(b[70:], h.refs)
	binary.LittleEndian.PutUint16(b[78:], uint16(len(h.typ)))
	return append(append(b, h.typ...), h.meta...)
}

// decodeHead returns the head that b has, which it copies. A head of a later format is ErrFormat,
// all else that is not a head of this kind a *DamageError.
func decodeHead(b []byte, kind headKind) (*head, error) {
	if len(b) > 0 && b[0] > headFormat {
		return nil, fmt.Errorf("objects: head of format %d: %w", b[0], brock.ErrFormat)
	}
	if len(b) < headSize || b[0] != headFormat {
		return nil, &DamageError{Part: -1, Reason: "has a value that is no head"}
	}
	h := &head{
		kind:     headKind(b[1]),
		id:       objectID(b[2:]),
		size:     int64(binary.LittleEndian.Uint64(b[18:])),
		partSize: int64(binary.LittleEndian.Uint32(b[26:])),
		millis:   int64(binary.LittleEndian.Uint64(b[30:])),
		digest:   Digest(b[38:]),
		refs:     binary.LittleEndian.Uint64(b[70:]),
	}
	end := headSize + int(binary.LittleEndian.Uint16(b[78:]))
	switch {
	case h.kind != kind:
		return nil, &DamageError{Part: -1, Reason: fmt.Sprintf("has a head of kind %d, not %d", h.kind, kind)}
	case h.size < 0, h.partSize < minPart, h.partSize > maxPart, (h.refs > 0) != (kind == blobHead),
		end > len(b), end-headSize > MaxType, len(b)-end > MaxMeta:
		return nil, &DamageError{Part: -1, Reason: "has a head with a field that is not possible"}
	}
	h.typ, h.meta = string(b[headSize:end]), bytes.Clone(b[end:])
	return h, nil
}

// parts is how many parts the object has.
func (h *head) parts() int64 {
	n := h.size / h.partSize
	if h.size%h.partSize > 0 {
		n++
	}
	return n
}

// partLen is how many bytes part n has.
func (h *head) partLen(n int64) int64 { return min(h.partSize, h.size-n*h.partSize) }

// makeInfo returns what users see of h. key is copied.
func (h *head) makeInfo(key []byte) Info {
	return Info{
		Key: bytes.Clone(key), Size: h.size, Digest: h.digest, Type: h.typ, Meta: bytes.Clone(h.meta),
		Time: time.UnixMilli(h.millis), Refs: h.refs, PartSize: int(h.partSize),
	}
}

// isMisplaced reports whether h is of a blob under another key than its digest.
func (h *head) isMisplaced(key []byte) bool {
	return h.kind == blobHead && !bytes.Equal(key, h.digest[:])
}

// The first bytes of keys in the keyspace of parts.
const (
	partPrefix   = 'p'
	stagedPrefix = 's'
)

// Lengths of keys and values in the keyspace of parts.
const (
	partKeySize   = 1 + len(objectID{}) + 8
	stagedKeySize = 1 + len(objectID{})
	stagedSize    = 1 + 8
)

// partKey is the key of part n.
func (id *objectID) partKey(n int64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{partPrefix}, id[:]...), uint64(n))
}

// pastParts is the least key that is greater than those of all parts.
func (id *objectID) pastParts() []byte {
	return append(id.partKey(-1), 0) // after the greatest number
}

// stagedKey is the key of the mark of an upload that is not linked.
func (id *objectID) stagedKey() []byte { return append([]byte{stagedPrefix}, id[:]...) }

// parsePartKey returns what is in the key of a part.
func parsePartKey(key []byte) (id objectID, n int64, ok bool) {
	if len(key) != partKeySize || key[0] != partPrefix {
		return id, 0, false
	}
	n = int64(binary.BigEndian.Uint64(key[1+len(id):]))
	return objectID(key[1:]), n, n >= 0
}

// encodeStaged returns the mark of an upload.
func encodeStaged(millis int64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{headFormat}, uint64(millis))
}

// decodeStaged returns the id and the time of a mark.
func decodeStaged(key, value []byte) (id objectID, millis int64, err error) {
	switch {
	case len(value) > 0 && value[0] > headFormat:
		return id, 0, fmt.Errorf("objects: mark of format %d: %w", value[0], brock.ErrFormat)
	case len(key) != stagedKeySize || len(value) != stagedSize || value[0] != headFormat:
		return id, 0, &DamageError{Part: -1, Reason: "a mark of an upload is none"}
	}
	return objectID(key[1:]), int64(binary.LittleEndian.Uint64(value[1:])), nil
}
