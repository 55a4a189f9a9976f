package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/entry"
)

// The form of a frame in an encrypted segment is in docs/format.md, "Frame in an encrypted
// segment": the records with tags first, then the rest, then the end.
const (
	blockSize = 1 << 20 // of the rest, under one tag
	endSize   = crypt.TagSize + 8
	stubSize  = 8
	stubMark  = 1 // first byte of a stub; that of a short record has bit 7

	stepBytes  = 1 << 20   // written at once
	pieceBytes = 256 << 10 // of a large value, in memory at a time
	bufferKept = 2 << 20   // a buffer grown beyond it is given back
)

// blocks is how many tags the rest has.
func blocks(rest int64) int64 { return max(1, (rest+blockSize-1)/blockSize) }

// EncryptedSize is the length of an encrypted frame with this much in records with tags,
// and in the rest, which of a Seal is its payload; in bytes.
func EncryptedSize(own, rest int64) int64 {
	return HeaderSize + own + rest + blocks(rest)*crypt.TagSize + endSize
}

// Encrypter writes the frames of one file in encrypted form. It is used by one goroutine.
// Between two frames it keeps a buffer of at most 2 MiB.
type Encrypter struct {
	keys  *crypt.Encrypter
	id    checksum.Identity
	write func(b []byte, off int64) error

	buf []byte // to be written next
	at  int64  // where it belongs in the file

	// Of the frame that is being written:
	offset  int64
	attempt uint32
	data    [crypt.TagSize + HeaderSize + 4]byte // what its first tag covers beside the block
	tags    []byte                               // of the blocks of the rest so far
	left    int64                                // bytes of the rest that are not in buf yet
	row     uint32                               // records with tags that no stub tells of yet

	block, blockLeft int // where in buf the present block begins, and bytes that it misses
}

// NewEncrypter returns an Encrypter for the file id, which hands what it has encrypted to
// write. Nothing may keep b, which is valid until write returns.
func NewEncrypter(e *crypt.Encrypter, id checksum.Identity, write func(b []byte, off int64) error) *Encrypter {
	return &Encrypter{keys: e, id: id, write: write}
}

// Frame writes the frame with the header h, of which Size is what c.Measure returned, and
// the content c at offset of the file. before is the tag of the frame before. It sets h.Sum
// and h.Tag. Up to 1 MiB are written by one call of write; of more, the last call is for
// the end of the frame.
func (x *Encrypter) Frame(h *Header, c *Content, offset int64, before crypt.Tag) (err error) {
	if x.attempt, err = x.keys.Begin(offset, h.Size); err != nil {
		return err
	}
	h.Encrypted, h.PayloadSum = true, 0
	x.buf, x.at, x.offset = x.buf[:0], offset, offset
	if err := x.room(HeaderSize); err != nil {
		return err
	}
	x.buf = x.buf[:HeaderSize]
	h.Put(x.buf, x.id, offset)
	putData(&x.data, &before, x.buf, c.rest)
	// Two walks: what is encrypted in one piece behind the records is spread between them.
	if c.own > 0 {
		err = c.each(func(rec []byte, size, head int) error { return x.own(c, rec, size, head) }, func([]byte) error { return nil })
	}
	if err == nil {
		err = x.rest(c)
	}
	if err == nil {
		h.Tag = crypt.Tag(x.tags)
		err = x.end(c, &before)
	}
	if cap(x.buf) > bufferKept {
		x.buf = nil
	}
	return err
}

// putData makes what the first tag of a frame covers beside its block.
func putData(data *[crypt.TagSize + HeaderSize + 4]byte, before *crypt.Tag, header []byte, rest int64) {
	n := copy(data[:], before[:])
	n += copy(data[n:], header[:HeaderSize])
	binary.LittleEndian.PutUint32(data[n:], uint32(rest/8))
}

// room makes room for n bytes in buf, and for a tag behind them.
func (x *Encrypter) room(n int) error {
	if len(x.buf)+n > stepBytes {
		if err := x.flush(); err != nil {
			return err
		}
	}
	x.buf = slices.Grow(x.buf, n+crypt.TagSize)
	return nil
}

func (x *Encrypter) flush() error {
	if len(x.buf) == 0 {
		return nil
	}
	err := x.write(x.buf, x.at)
	x.at += int64(len(x.buf))
	x.buf = x.buf[:0]
	return err
}

// own encrypts a record with a tag.
func (x *Encrypter) own(c *Content, rec []byte, size, head int) error {
	if entry.ValueSize(rec) >= entry.PieceSize {
		return x.large(c, rec, head)
	}
	if len(rec) < size {
		whole := make([]byte, size)
		n := copy(whole, rec)
		if _, err := io.ReadFull(c.Value, whole[n:head+entry.ValueSize(rec)]); err != nil {
			return err
		}
		rec = whole
	}
	if err := x.room(size + crypt.TagSize); err != nil {
		return err
	}
	var err error
	x.buf, err = entry.Encrypt(x.buf, rec, x.keys, x.at+int64(len(x.buf)), x.attempt)
	return err
}

// large encrypts a record whose value has pieces. Those of a long one are written before
// its head, which has their tags: what a crash leaves in between is a torn frame.
func (x *Encrypter) large(c *Content, rec []byte, head int) error {
	size, left, begin := entry.EncryptedSize(rec), entry.ValueSize(rec), min(entry.ValueAt(rec), len(rec))
	var value io.Reader = bytes.NewReader(rec[begin:min(begin+left, len(rec))])
	if c.Value != nil {
		value = io.MultiReader(value, c.Value)
	}
	if size <= stepBytes {
		return x.largeInBuffer(rec[:head], value, size, left)
	}
	if err := x.flush(); err != nil {
		return err
	}
	l := entry.NewLarge(rec[:head], x.keys, x.at, x.attempt)
	for left > 0 {
		x.buf = slices.Grow(x.buf[:0], min(left, pieceBytes)+crypt.TagSize)
		part, at := x.buf[:min(left, pieceBytes)], l.Next()
		if err := nextPieces(l, value, part); err != nil {
			return err
		}
		if left -= len(part); left == 0 {
			part = entry.Pad(part)
		}
		if err := x.write(part, at); err != nil {
			return err
		}
	}
	b, err := l.Head()
	if err != nil {
		return err
	}
	x.buf = x.buf[:0]
	at := x.at
	x.at += int64(size)
	return x.write(b, at)
}

// largeInBuffer is large for a record that is written with others.
func (x *Encrypter) largeInBuffer(head []byte, value io.Reader, size, left int) error {
	if err := x.room(size); err != nil {
		return err
	}
	at := len(x.buf)
	offset := x.at + int64(at)
	l := entry.NewLarge(head, x.keys, offset, x.attempt)
	b := x.buf[at : at+size]
	begin := int(l.Next() - offset)
	if err := nextPieces(l, value, b[begin:begin+left]); err != nil {
		return err
	}
	clear(b[begin+left:])
	first, err := l.Head()
	copy(b, first)
	x.buf = x.buf[:at+size]
	return err
}

// nextPieces encrypts the next pieces of a value, which it reads to part.
func nextPieces(l *entry.Large, value io.Reader, part []byte) error {
	if _, err := io.ReadFull(value, part); err != nil {
		return err
	}
	return l.Pieces(part)
}

// rest encrypts what is not in records with tags, block by block.
func (x *Encrypter) rest(c *Content) error {
	x.tags, x.left, x.row, x.blockLeft = x.tags[:0], c.rest, 0, 0
	if c.rest == 0 {
		x.block = len(x.buf)
		return x.endBlock()
	}
	err := c.each(func([]byte, int, int) error { x.row++; return nil }, x.put)
	if err == nil {
		err = x.stub()
	}
	return err
}

// put appends bytes to the rest, behind the stub of the records before them.
func (x *Encrypter) put(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := x.stub(); err != nil {
		return err
	}
	return x.add(b)
}

// stub says how many records with tags stand here.
func (x *Encrypter) stub() error {
	if x.row == 0 {
		return nil
	}
	stub := [stubSize]byte{stubMark}
	binary.LittleEndian.PutUint32(stub[4:], x.row)
	x.row = 0
	return x.add(stub[:])
}

func (x *Encrypter) add(b []byte) error {
	for len(b) > 0 {
		if x.blockLeft == 0 {
			x.blockLeft = int(min(blockSize, x.left))
			if x.blockLeft == 0 {
				return fmt.Errorf("%w: a payload has grown", entry.ErrRecord)
			}
			if err := x.room(x.blockLeft); err != nil {
				return err
			}
			x.block = len(x.buf)
		}
		n := min(len(b), x.blockLeft)
		x.buf, b = append(x.buf, b[:n]...), b[n:]
		x.left -= int64(n)
		if x.blockLeft -= n; x.blockLeft == 0 {
			if err := x.endBlock(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endBlock encrypts the present block of the rest. The first one stands for the frame.
func (x *Encrypter) endBlock() error {
	unit, offset, data := crypt.Block, x.at+int64(x.block), []byte(nil)
	if len(x.tags) == 0 {
		unit, offset, data = crypt.Frame, x.offset, x.data[:]
	}
	b := x.buf[x.block:]
	tag, err := x.keys.Encrypt(b, b, unit, offset, data)
	x.tags = append(x.tags, tag[:]...)
	return err
}

// end writes what is left of the frame.
func (x *Encrypter) end(c *Content, before *crypt.Tag) error {
	// The first tag covers the length that was measured.
	if x.left != 0 {
		return fmt.Errorf("%w: a payload has shrunk", entry.ErrRecord)
	}
	if err := x.room(len(x.tags) + endSize); err != nil {
		return err
	}
	b := append(append(x.buf, x.tags...), before[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(c.rest/8))
	x.buf = binary.LittleEndian.AppendUint32(b, x.attempt)
	return x.flush()
}
