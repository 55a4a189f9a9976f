package entry

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
)

// The form that a record with its own checksum has in an encrypted file: docs/format.md,
// "Record in an encrypted segment". In memory records always have the plain form.

// TagSize is the length of a tag in bytes. A record with its own checksum is that much longer in
// an encrypted file, and 12 bytes more for each piece of its value.
const TagSize = crypt.TagSize

const (
	clearSize      = 8                        // bytes that are not encrypted
	leastEncrypted = HeaderSize + 8 + TagSize // the key has at least one byte
	sizeBits       = 29                       // of the clear bytes: length of the record / 8
	secretBits     = 18                       // then length of what is encrypted with the head / 8
)

// Clear is the part of an encrypted record that can be read without decrypting it.
type Clear struct {
	Size    int64  // of the record in the file, in bytes
	Head    int    // bytes before the pieces of its value; equal to Size if it has no pieces
	Attempt uint32 // which attempt to write this place of the file it was
}

// ParseClear reads the clear bytes that the record in src begins with. ok is false if
// they can't be those of a record.
func ParseClear(src []byte) (c Clear, ok bool) {
	if len(src) < clearSize {
		return c, false
	}
	word := binary.LittleEndian.Uint64(src)
	c.Size = 8 * int64(word&(1<<sizeBits-1))
	c.Head = clearSize + 8*int(word>>sizeBits&(1<<secretBits-1)) + TagSize
	c.Attempt = uint32(word >> (sizeBits + secretBits))
	// Only plausible: nothing has proved these bytes yet, so callers compare them with what is
	// there.
	pieces := c.Size - int64(c.Head)
	return c, c.Head >= leastEncrypted && (pieces == 0 || pieces >= PieceSize)
}

// putClear writes the clear bytes of a record.
func putClear(dst []byte, c Clear) {
	word := uint64(c.Size/8) | uint64(c.Head-clearSize-TagSize)/8<<sizeBits | uint64(c.Attempt)<<(sizeBits+secretBits)
	binary.LittleEndian.PutUint64(dst, word)
}

// FileSize returns how many bytes the record takes in its file. In an encrypted file this is 0
// for a short record, as it is encrypted together with others.
func (r *Record) FileSize(encrypted bool) int {
	switch {
	case !encrypted:
		return r.Size
	case !r.Own:
		return 0
	}
	return encryptedSize(r.valueStart, r.ValueSize)
}

// BareSize returns Size for a record whose value has no pieces. Otherwise it returns the length
// of the plain form without piece table and value, rounded up to a multiple of 8.
func (r *Record) BareSize() int {
	if r.Own && r.ValueSize >= PieceSize {
		return AlignUp(r.valueStart)
	}
	return r.Size
}

// EncryptedBound is how long a record is in an encrypted file whose plain form has at most
// plain bytes, and a value of this length.
func EncryptedBound(plain, value uint64) uint64 {
	n := plain + TagSize
	if value >= PieceSize {
		// Tags take the place of the table of checksums. The head is padded by itself.
		n += (TagSize-4)*((value+PieceSize-1)/PieceSize) + 8
	}
	return (n + 7) &^ 7
}

// EncryptedRecordSize is the length in an encrypted file of a record with its own checksum, of
// which rec has at least what comes before the value. Nothing is checked, as in RawSize.
func EncryptedRecordSize(rec []byte) int {
	_, head := rawOwn(rec)
	return encryptedSize(head, ValueSize(rec))
}

// ValueSize is the length of the value of an encoded record with its own checksum.
func ValueSize(rec []byte) int { return int(binary.LittleEndian.Uint32(rec[4:])) }

// ValueAt is where the value begins in an encoded record with its own checksum, of which
// rec has what comes before the value.
func ValueAt(rec []byte) int {
	_, head := rawOwn(rec)
	if value := ValueSize(rec); value >= PieceSize {
		head += 4 * pieceCount(value)
	}
	return head
}

// encryptedHead is Clear.Head of a record whose header, extension and key have start bytes.
func encryptedHead(start, value int) int {
	if value < PieceSize {
		return AlignUp(start+value) + TagSize
	}
	return AlignUp(start+TagSize*pieceCount(value)) + TagSize
}

// encryptedSize is the length in an encrypted file of a record whose header, extension and key have
// start bytes.
func encryptedSize(start, value int) int {
	if value < PieceSize {
		return encryptedHead(start, value)
	}
	return encryptedHead(start, value) + AlignUp(value)
}

// EncryptRecord appends the encrypted form of rec, a whole record whose value has no pieces, to
// dst, which then lies at offset of the file. e.Begin has returned attempt.
func EncryptRecord(dst, rec []byte, e *crypt.Encrypter, offset int64, attempt uint32) ([]byte, error) {
	at, size := len(dst), len(rec)
	dst = slices.Grow(dst, size+TagSize)[:at+size+TagSize]
	out := dst[at:]
	putClear(out, Clear{Size: int64(len(out)), Head: len(out), Attempt: attempt})
	// The checksums, bytes 8 to 15, are of plaintext: they are left out.
	copy(out[clearSize:], rec[:8])
	copy(out[16:], rec[16:])
	return dst, sealHead(out, e, offset)
}

// sealHead encrypts all of head, whose clear bytes are set, and appends its tag in place.
func sealHead(head []byte, e *crypt.Encrypter, offset int64) error {
	// The clear bytes are covered by the tag, though everybody can read them.
	secret := head[clearSize : len(head)-TagSize]
	tag, err := e.Encrypt(secret, secret, crypt.Record, offset, head[:clearSize])
	copy(head[len(head)-TagSize:], tag[:])
	return err
}

// Large encrypts a record whose value has pieces. First call EncryptPieces for all pieces in their
// order, then EncryptHead: the head has their tags.
type Large struct {
	head    []byte // the encrypted record up to its pieces; tags are filled in by EncryptPieces
	at      int    // offset in head where the next tag belongs
	offset  int64  // of the record in the file
	pieces  int64  // offset of the next piece in the file
	encrypt *crypt.Encrypter
}

// NewLarge begins the record that begins with head, header, extension and key of its
// plain form, and will lie at offset of the file. e.Begin has returned attempt.
func NewLarge(head []byte, e *crypt.Encrypter, offset int64, attempt uint32) *Large {
	value := ValueSize(head)
	l := &Large{head: make([]byte, encryptedHead(len(head), value)), at: len(head), offset: offset, encrypt: e}
	putClear(l.head, Clear{Size: int64(encryptedSize(len(head), value)), Head: len(l.head), Attempt: attempt})
	// As in EncryptRecord: without the checksums, which are of plaintext.
	copy(l.head[clearSize:], head[:8])
	copy(l.head[16:], head[16:])
	l.pieces = offset + int64(len(l.head))
	return l
}

// NextOffset returns the offset in the file of the next piece.
func (l *Large) NextOffset() int64 { return l.pieces }

// EncryptPieces encrypts the next pieces in place. Behind them b has 16 bytes of capacity.
func (l *Large) EncryptPieces(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), PieceSize)
		tag, err := l.encrypt.Encrypt(b[:n], b[:n], crypt.Piece, l.pieces, nil)
		if err != nil {
			return err
		}
		l.at += copy(l.head[l.at:], tag[:])
		l.pieces += int64(n)
		b = b[n:]
	}
	return nil
}

// EncryptHead returns the encrypted head of the record, to be written at the record's offset. Call it
// after all pieces were encrypted.
func (l *Large) EncryptHead() ([]byte, error) { return l.head, sealHead(l.head, l.encrypt, l.offset) }

// Encrypted is a record of an encrypted file whose head is decrypted; its pieces are not.
type Encrypted struct {
	Record        // decoded; its Value is nil if it has pieces
	Clear  Clear  // its place in the file
	tags   []byte // of the pieces; empty: the value has none
}

// DecryptHead decrypts the first c.Head bytes of the record at offset of the file, where c
// is what ParseClear says of it: all of src. It puts the plain form into dst, which is
// TagSize bytes shorter than src, and may be its beginning. If the value has pieces, their
// tags stand in the place of the table. It returns ErrRecord or crypt.ErrTag; don't use dst
// then.
func DecryptHead(dst, src []byte, d *crypt.Decrypter, offset int64) (x Encrypted, err error) {
	c, ok := ParseClear(src)
	if !ok || len(src) != c.Head || len(dst) != c.Head-TagSize {
		return x, fmt.Errorf("%w: clear bytes %x, of %d", ErrRecord, src[:min(clearSize, len(src))], len(src))
	}
	secret, tag := src[clearSize:len(dst)], crypt.Tag(src[len(dst):])
	if err := d.Decrypt(dst[clearSize:], secret, &tag, crypt.Record, offset, c.Attempt, src[:clearSize]); err != nil {
		return x, err
	}
	// The encrypted form has no checksums, and the clear bytes are in their place: move the first 8
	// bytes of the header to the front, and leave zeros for the checksums.
	copy(dst, dst[clearSize:16])
	clear(dst[8:16])
	x.Clear = c
	if err := x.Record.decodeFrom(dst, math.MaxInt, true); err != nil {
		return x, err
	}
	start, value := x.valueStart, x.ValueSize
	// The tag is right, so only a bug of the writer gives lengths that don't agree.
	if encryptedHead(start, value) != c.Head || int64(encryptedSize(start, value)) != c.Size {
		return x, fmt.Errorf("%w: value of %d bytes in a record of %d", ErrRecord, value, c.Size)
	}
	if value >= PieceSize {
		x.tags = dst[start : start+TagSize*pieceCount(value)]
	}
	return x, nil
}

// InPieces reports whether the value has pieces.
func (x *Encrypted) InPieces() bool { return len(x.tags) > 0 }

// AppendPlainHead appends what comes before the value in the plain form of a record in pieces,
// with zeros for its checksums. head is what DecryptHead has put into dst.
func (x *Encrypted) AppendPlainHead(dst, head []byte) []byte {
	dst = append(dst, head[:x.valueStart]...)
	return append(dst, make([]byte, 4*pieceCount(x.ValueSize))...)
}

// DecryptPieces decrypts the part of the value that begins at offset at, a multiple of
// PieceSize, and ends with a piece, in place. The record lies at offset of the file. Behind
// part there are 16 bytes of capacity.
func (x *Encrypted) DecryptPieces(part []byte, at int, d *crypt.Decrypter, offset int64) error {
	offset += int64(x.Clear.Head) + int64(at)
	for i := at / PieceSize; len(part) > 0; i++ {
		n := min(len(part), PieceSize)
		tag := crypt.Tag(x.tags[TagSize*i:])
		if err := d.Decrypt(part[:n], part[:n], &tag, crypt.Piece, offset, x.Clear.Attempt, nil); err != nil {
			return err
		}
		part, offset = part[n:], offset+int64(n)
	}
	return nil
}

// DecryptRecord decrypts the record at offset of the file, in place. raw, which may be longer,
// is memory of the caller's own, of which nothing else may be in use, with 16 bytes of
// capacity behind. plain is the plain form, with zeros for its checksums and piece table:
// DecodeRecord is called next. Its last zeros, up to 7, may lie in these 16 bytes. DecryptRecord
// returns ErrRecord or crypt.ErrTag; don't use raw then.
func DecryptRecord(raw []byte, d *crypt.Decrypter, offset int64) (plain []byte, err error) {
	c, ok := ParseClear(raw)
	if !ok || c.Size > int64(len(raw)) {
		return nil, fmt.Errorf("%w: clear bytes %x, %d are left", ErrRecord, raw[:min(clearSize, len(raw))], len(raw))
	}
	x, err := DecryptHead(raw[:c.Head-TagSize], raw[:c.Head], d, offset)
	if err != nil {
		return nil, err
	}
	if !x.InPieces() {
		return raw[:x.Size:x.Size], nil
	}
	end := c.Head + x.ValueSize
	if err := x.DecryptPieces(raw[c.Head:end], 0, d, offset); err != nil {
		return nil, err
	}
	// The plain form has a shorter table: it begins where that makes it end with the value.
	table := 4 * pieceCount(x.ValueSize)
	begin := c.Head - table - x.valueStart
	copy(raw[begin:], raw[:x.valueStart])
	// No checksums: the tags have proved the value.
	clear(raw[c.Head-table : c.Head])
	plain = raw[begin : begin+x.Size : begin+x.Size]
	clear(plain[end-begin:])
	return plain, nil
}
