package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// wholeFrame is the length in bytes up to which a frame is read by one call.
const wholeFrame = 16 << 20

// Decrypter reads the encrypted frames of one file. It is used by one goroutine. Between
// two frames it keeps a buffer as long as the longest payload.
type Decrypter struct {
	keys   *crypt.Decrypter                   // of the file
	read   func(off, n int64) ([]byte, error) // returns n bytes at off of the file
	values bool                               // decrypt values in pieces too, to verify them

	whole  []byte // the frame, if it is no longer than wholeFrame
	offset int64  // of the frame
	tags   []byte
	rest   []byte // the frame's rest, decrypted
	out    []byte // the payload of a frame that has records with tags

	attempt uint32 // as the frame's end says; each record must say the same
	next    int64  // where the next record with a tag begins
	ownEnd  int64  // where the last record with a tag ends
}

// NewDecrypter returns a Decrypter that gets the bytes of a file from read. read returns n bytes
// at off, which are valid until its next call. The Decrypter decrypts them in place, so nobody
// else may use this memory, and it must have a capacity of 16 bytes more. With values, Frame also
// decrypts values in pieces, to verify them; it does not return them.
func NewDecrypter(d *crypt.Decrypter, values bool, read func(off, n int64) ([]byte, error)) *Decrypter {
	return &Decrypter{keys: d, values: values, read: read}
}

// DecryptFrame returns the payload of the encrypted frame with the header h at offset of the file,
// and the totals of its records. All of the frame must be in the file. The payload is valid
// until the next call. before is the tag that the frame before must have; nil accepts any tag.
// Frame sets h.Tag.
//
// The payload has the plain form, but its checksums are zero, and it has no piece tables and no
// values in pieces. Walk it with Records. If any bit of the frame has changed since it was
// written, Frame returns ErrFrame. Other errors are those of read.
func (x *Decrypter) DecryptFrame(h *Header, offset int64, before *crypt.Tag) (payload []byte, t Totals, err error) {
	x.offset, x.whole = offset, nil
	if h.Size < EncryptedFrameSize(0, 0) {
		return nil, t, fmt.Errorf("%w: %d bytes, encrypted", ErrFrame, h.Size)
	}
	// A longer frame is read part by part, to bound the memory.
	if h.Size <= wholeFrame {
		if x.whole, err = x.read(offset, h.Size); err != nil {
			return nil, t, err
		}
	}
	if err := x.decryptRest(h, before); err != nil {
		return nil, t, err
	}
	if h.Kind != Group {
		// Only a Group has records with tags, so bytes of such records are damage.
		if x.next != x.ownEnd {
			return nil, t, fmt.Errorf("%w: %v with records", ErrFrame, h.Kind)
		}
		return x.rest, t, nil
	}
	if payload, err = x.joinPayload(); err == nil {
		t, _, err = h.checkRecords(payload, 0, offset+HeaderSize, false)
	}
	return payload, t, err
}

// readBytes returns n bytes of the frame at offset off of the file. They are valid until the next
// call.
func (x *Decrypter) readBytes(off, n int64) ([]byte, error) {
	if x.whole == nil {
		return x.read(off, n)
	}
	at := off - x.offset
	return x.whole[at : at+n], nil
}

// decryptRest decrypts the rest, and finds out where the records with tags are.
func (x *Decrypter) decryptRest(h *Header, before *crypt.Tag) error {
	b, err := x.readBytes(x.offset, HeaderSize)
	if err != nil {
		return err
	}
	header := [HeaderSize]byte(b)
	end := x.offset + h.Size - endSize
	if b, err = x.readBytes(end, endSize); err != nil {
		return err
	}
	tag, rest := crypt.Tag(b), 8*int64(binary.LittleEndian.Uint32(b[crypt.TagSize:]))
	x.attempt = binary.LittleEndian.Uint32(b[crypt.TagSize+4:])
	x.next = x.offset + HeaderSize
	x.ownEnd = end - rest - blockCount(rest)*crypt.TagSize
	// No tag has proved this length yet, so it is checked before it is used.
	if x.ownEnd < x.next {
		return fmt.Errorf("%w: %d bytes without tags in a frame of %d", ErrFrame, rest, h.Size)
	}
	if before != nil && tag != *before {
		return fmt.Errorf("%w: frame after one with the tag %x, want %x", ErrFrame, tag, *before)
	}
	if b, err = x.readBytes(x.ownEnd+rest, blockCount(rest)*crypt.TagSize); err != nil {
		return err
	}
	x.tags = append(x.tags[:0], b...)
	h.Tag = crypt.Tag(x.tags)
	var data [crypt.TagSize + HeaderSize + 4]byte
	// The tag covers the header, too: a header of another frame fails here.
	putData(&data, &tag, header[:], rest)
	return x.decryptBlocks(rest, data[:])
}

// decryptBlocks decrypts the rest, block by block, into x.rest.
func (x *Decrypter) decryptBlocks(rest int64, data []byte) error {
	x.rest = x.rest[:0]
	unit, offset := crypt.Frame, x.offset
	for i, at := 0, x.ownEnd; at < x.ownEnd+rest || i == 0; i++ {
		n := int(min(blockSize, x.ownEnd+rest-at))
		b, err := x.readBytes(at, int64(n))
		if err != nil {
			return err
		}
		// Block by block: a wrong length costs one block of memory before its tag fails.
		x.rest = slices.Grow(x.rest, n)
		tag := crypt.Tag(x.tags[i*crypt.TagSize:])
		if err := x.keys.Decrypt(x.rest[len(x.rest):len(x.rest)+n], b, &tag, unit, offset, x.attempt, data); err != nil {
			return asFrameError(err, offset)
		}
		x.rest = x.rest[:len(x.rest)+n]
		at += int64(n)
		// A later block is bound to its own place in the file.
		unit, offset, data = crypt.Block, at, nil
	}
	return nil
}

// asFrameError returns ErrFrame for an error in decrypting what is at offset.
func asFrameError(err error, offset int64) error {
	if errors.Is(err, crypt.ErrTag) || errors.Is(err, entry.ErrRecord) {
		return fmt.Errorf("%w: at %d: %w", ErrFrame, offset, err)
	}
	return err
}

// joinPayload makes the payload: it puts the records with tags back between the others.
func (x *Decrypter) joinPayload() ([]byte, error) {
	x.out = x.out[:0]
	from := 0 // the rest from here on is not in out yet
	for pos := 0; pos < len(x.rest); {
		if !isOwn(x.rest[pos:]) {
			size := entry.ShortSize(x.rest[pos:])
			if size == 0 {
				return nil, fmt.Errorf("%w: %d bytes of the rest are no record", ErrFrame, len(x.rest)-pos)
			}
			pos += size
			continue
		}
		stub := x.rest[pos:]
		if len(stub) < stubSize || binary.LittleEndian.Uint32(stub) != stubMark {
			return nil, fmt.Errorf("%w: %x in the place of a record", ErrFrame, stub[:min(len(stub), stubSize)])
		}
		x.out = append(x.out, x.rest[from:pos]...)
		for range binary.LittleEndian.Uint32(stub[4:]) {
			if err := x.joinOwn(); err != nil {
				return nil, asFrameError(err, x.next)
			}
		}
		pos += stubSize
		from = pos
	}
	// Each record must be in the place of a stub, or one could be left out unnoticed.
	if x.next != x.ownEnd {
		return nil, fmt.Errorf("%w: records up to %d, want %d", ErrFrame, x.next, x.ownEnd)
	}
	if from == 0 {
		// There were no records with tags, so nothing needs to be copied.
		return x.rest, nil
	}
	x.out = append(x.out, x.rest[from:]...)
	return x.out, nil
}

// joinOwn appends the next record with a tag to the payload.
func (x *Decrypter) joinOwn() error {
	left := x.ownEnd - x.next
	b, err := x.readBytes(x.next, min(left, 8))
	if err != nil {
		return err
	}
	// No tag has proved these bytes yet, so lengths are compared with what is there before use.
	c, ok := entry.ParseClear(b)
	if !ok || c.Size > left || c.Attempt != x.attempt {
		return fmt.Errorf("%w: %+v in %d bytes, attempt %d", entry.ErrRecord, c, left, x.attempt)
	}
	if b, err = x.readBytes(x.next, int64(c.Head)); err != nil {
		return err
	}
	at, n := len(x.out), c.Head-entry.TagSize
	x.out = slices.Grow(x.out, n)[:at+n]
	rec, err := entry.DecryptHead(x.out[at:], b, x.keys, x.next)
	if err == nil && x.values && rec.InPieces() {
		err = x.verifyPieces(&rec)
	}
	if err != nil {
		return err
	}
	if rec.InPieces() { // the tags of the pieces are behind the key
		end := at + rec.BareSize()
		clear(x.out[at+rec.KeyEnd() : end])
		x.out = x.out[:end]
	}
	x.next += c.Size
	return nil
}

// verifyPieces decrypts the value of the next record to verify it, and drops the result.
func (x *Decrypter) verifyPieces(rec *entry.Encrypted) error {
	for at := 0; at < rec.ValueSize; {
		n := min(rec.ValueSize-at, pieceBytes)
		b, err := x.readBytes(x.next+int64(rec.Clear.Head)+int64(at), int64(entry.AlignUp(n)))
		if err != nil {
			return err
		}
		// No tag covers the zeros behind the last piece, so a flipped bit there would pass.
		for _, c := range b[n:] {
			if c != 0 {
				return fmt.Errorf("%w: padding is not zeros", entry.ErrRecord)
			}
		}
		if err := rec.DecryptPieces(b[:n], at, x.keys, x.next); err != nil {
			return err
		}
		at += n
	}
	return nil
}
