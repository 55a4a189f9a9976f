package frame

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// docs/format.md, "Frame in an encrypted segment", has the form of a frame: the records that
// have a tag of their own, then the rest (short records and stubs), then the end. A stub stands
// in the rest where records with tags were.
const (
	blockSize = 1 << 20 // the rest is encrypted in blocks of 1 MiB, each with one tag
	endSize   = crypt.TagSize + 8
	stubSize  = 8
	stubMark  = 1 // first byte of a stub; the first byte of a short record has bit 7 set

	stepBytes  = 1 << 20   // at most this much is written by one call, as a rule
	pieceBytes = 256 << 10 // how much of a large value is in memory at a time
	bufferKept = 2 << 20   // a larger buffer is freed after the frame
)

// blockCount returns how many blockCount, and so tags, a rest of this many bytes has.
func blockCount(rest int64) int64 { return max(1, (rest+blockSize-1)/blockSize) }

// EncryptedFrameSize returns the length of an encrypted frame in bytes. own is the length of its
// records with tags, rest that of all else. The payload of a Seal is all rest.
func EncryptedFrameSize(own, rest int64) int64 {
	return HeaderSize + own + rest + blockCount(rest)*crypt.TagSize + endSize
}

// Encrypter writes the frames of one file in encrypted form. It is used by one goroutine.
// Between two frames it keeps buffers of at most 4 MiB.
type Encrypter struct {
	keys  *crypt.Encrypter
	id    checksum.Identity
	write func(b []byte, off int64) error

	buf []byte // encrypted bytes that are not written yet
	at  int64  // offset of buf in the file

	// State of the frame that is being written:
	offset int64 // of the frame in the file
	// how often this place was written before with this key: part of each nonce
	attempt uint32
	data    [crypt.TagSize + HeaderSize + 4]byte // what the tag of the first block covers, too
	tags    []byte                               // tags of the finished blocks of the rest
	block   []byte                               // the open block of the rest
	tagged  uint32                               // records with tags since the last stub
}

// NewEncrypter returns an Encrypter for the file id. It calls write with the encrypted bytes
// and their offset. write must not keep b, which is valid until write returns.
func NewEncrypter(e *crypt.Encrypter, id checksum.Identity, write func(b []byte, off int64) error) *Encrypter {
	return &Encrypter{keys: e, id: id, write: write}
}

// EncryptFrame writes a frame with the header h and the content c at offset of the file. h.Size must
// be the size that c.Measure returned. before is the tag of the frame before. Frame sets h.Sum
// and h.Tag. It writes a frame of up to 1 MiB by one call of write. A longer frame takes
// several calls; the last one writes the end of the frame.
func (x *Encrypter) EncryptFrame(h *Header, c *Content, offset int64, before crypt.Tag) (err error) {
	if x.attempt, err = x.keys.Begin(offset, h.Size); err != nil {
		return err
	}
	h.Encrypted, h.PayloadSum = true, 0
	x.buf, x.at, x.offset = x.buf[:0], offset, offset
	if err := x.reserveBytes(HeaderSize); err != nil {
		return err
	}
	x.buf = x.buf[:HeaderSize]
	// The header stays readable without the key: recovery searches for frames by it.
	h.Put(x.buf, x.id, offset)
	putData(&x.data, &before, x.buf, c.sharedBytes)
	// The content is walked twice: first for the records with tags, then for the rest, which
	// lies between these records in the content, but behind them in the frame.
	w := c.walkParts()
	for err == nil && w.nextPart() {
		if w.size > 0 {
			err = x.writeOwn(c, w.part[w.own:], w.size, w.head)
		}
	}
	if err == nil {
		err = x.encryptRest(c)
	}
	if err == nil {
		h.Tag = crypt.Tag(x.tags)
		err = x.endFrame(c, &before)
	}
	if cap(x.buf) > bufferKept {
		x.buf = nil
	}
	return err
}

// putData sets data to what the tag of the first block covers besides the block: the tag of the
// frame before, the header, and the length of the rest.
func putData(data *[crypt.TagSize + HeaderSize + 4]byte, before *crypt.Tag, header []byte, rest int64) {
	n := copy(data[:], before[:])
	n += copy(data[n:], header[:HeaderSize])
	binary.LittleEndian.PutUint32(data[n:], uint32(rest/8))
}

// reserveBytes makes room for n bytes in buf, and for a tag behind them. It may write what is in buf.
func (x *Encrypter) reserveBytes(n int) error {
	if len(x.buf)+n > stepBytes {
		if err := x.flushBuffer(); err != nil {
			return err
		}
	}
	// Encryption in place appends a tag, and must not move the buffer.
	x.buf = slices.Grow(x.buf, n+crypt.TagSize)
	return nil
}

func (x *Encrypter) flushBuffer() error {
	if len(x.buf) == 0 {
		return nil
	}
	err := x.write(x.buf, x.at)
	x.at += int64(len(x.buf))
	x.buf = x.buf[:0]
	return err
}

// writeOwn encrypts a record with a tag.
func (x *Encrypter) writeOwn(c *Content, rec []byte, size, head int) error {
	if entry.ValueSize(rec) >= entry.PieceSize {
		return x.writeLarge(c, rec, head)
	}
	// The rest of a short value comes from a reader. One tag covers the whole record, so it is put
	// together first.
	if len(rec) < size {
		whole := make([]byte, size)
		n := copy(whole, rec)
		if _, err := io.ReadFull(c.Value, whole[n:head+entry.ValueSize(rec)]); err != nil {
			return err
		}
		rec = whole
	}
	if err := x.reserveBytes(size + crypt.TagSize); err != nil {
		return err
	}
	var err error
	x.buf, err = entry.EncryptRecord(x.buf, rec, x.keys, x.at+int64(len(x.buf)), x.attempt)
	return err
}

// writeLarge encrypts a record whose value has pieces. The head has their tags, so it is encrypted
// last: its place in buf is zeros until then. Of a record longer than 1 MiB that may have been
// written already, and is written again. A crash in between leaves a torn frame.
func (x *Encrypter) writeLarge(c *Content, rec []byte, head int) error {
	left, begin := entry.ValueSize(rec), min(entry.ValueAt(rec), len(rec))
	var value io.Reader = bytes.NewReader(rec[begin:min(begin+left, len(rec))])
	if c.Value != nil {
		value = io.MultiReader(value, c.Value)
	}
	if err := x.reserveBytes(min(entry.EncryptedRecordSize(rec), stepBytes)); err != nil {
		return err
	}
	at := len(x.buf)
	offset := x.at + int64(at)
	l := entry.NewLarge(rec[:head], x.keys, offset, x.attempt)
	x.buf = append(x.buf, make([]byte, l.NextOffset()-offset)...)
	for left > 0 {
		n := min(left, pieceBytes)
		if err := x.reserveBytes(n); err != nil {
			return err
		}
		part := x.buf[len(x.buf):][:n]
		if _, err := io.ReadFull(value, part); err != nil {
			return err
		}
		if err := l.EncryptPieces(part); err != nil {
			return err
		}
		// The padding must be zeros: a reader checks it, as no tag covers it.
		x.buf = entry.PadRecords(x.buf[:len(x.buf)+n])
		left -= n
	}
	b, err := l.EncryptHead()
	if err == nil && x.at > offset {
		return x.write(b, offset)
	}
	copy(x.buf[at:], b)
	return err
}

// encryptRest encrypts the rest, block by block. An empty rest has one empty block, for the frame's
// tag.
func (x *Encrypter) encryptRest(c *Content) error {
	x.tags, x.block, x.tagged = x.tags[:0], x.block[:0], 0
	for w := c.walkParts(); w.nextPart(); {
		if err := x.appendRest(w.part[:w.own]); err != nil {
			return err
		}
		if w.size > 0 {
			x.tagged++
		}
	}
	if err := x.appendStub(); err != nil {
		return err
	}
	// A tag of no bytes still covers the header and the frame before.
	if len(x.block) > 0 || len(x.tags) == 0 {
		return x.encryptBlock()
	}
	return nil
}

// appendRest appends b to the rest. If records with tags came before b, their stub comes first.
func (x *Encrypter) appendRest(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := x.appendStub(); err != nil {
		return err
	}
	return x.appendBytes(b)
}

// appendStub appends a stub with the number of records with tags that were here, if there are any.
func (x *Encrypter) appendStub() error {
	if x.tagged == 0 {
		return nil
	}
	stub := [stubSize]byte{stubMark}
	binary.LittleEndian.PutUint32(stub[4:], x.tagged)
	// One stub stands for all of the streak.
	x.tagged = 0
	return x.appendBytes(stub[:])
}

func (x *Encrypter) appendBytes(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), blockSize-len(x.block))
		x.block, b = append(x.block, b[:n]...), b[n:]
		if len(x.block) == blockSize {
			if err := x.encryptBlock(); err != nil {
				return err
			}
		}
	}
	return nil
}

// encryptBlock encrypts a block of the rest into buf. The tag of the first block is the frame's tag,
// so it covers data, too.
func (x *Encrypter) encryptBlock() error {
	if err := x.reserveBytes(len(x.block)); err != nil {
		return err
	}
	at := len(x.buf)
	unit, offset, data := crypt.Block, x.at+int64(at), []byte(nil)
	// The first block belongs to the frame: its tag covers the header and the tag of the frame
	// before. So a frame that is moved or replaced does not decrypt.
	if len(x.tags) == 0 {
		unit, offset, data = crypt.Frame, x.offset, x.data[:]
	}
	x.buf = x.buf[:at+len(x.block)]
	tag, err := x.keys.Encrypt(x.buf[at:], x.block, unit, offset, data)
	x.tags, x.block = append(x.tags, tag[:]...), x.block[:0]
	return err
}

// endFrame appends the end of the frame, and writes what is in buf.
func (x *Encrypter) endFrame(c *Content, before *crypt.Tag) error {
	if err := x.reserveBytes(len(x.tags) + endSize); err != nil {
		return err
	}
	b := append(append(x.buf, x.tags...), before[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(c.sharedBytes/8))
	x.buf = binary.LittleEndian.AppendUint32(b, x.attempt)
	return x.flushBuffer()
}
