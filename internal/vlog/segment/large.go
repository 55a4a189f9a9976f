package segment

import (
	"fmt"
	"io"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// largeRecord is the length in bytes beyond which a record is copied piece by piece.
// Its key is much shorter, so its value has pieces.
const largeRecord = 4 << 20

// copyLarge is copyRecord for a record of more than largeRecord bytes: head and pieces are
// verified, or decrypted, in the memory that they are written from.
func (v *ValueWriter) copyLarge(r *Reader, offset int64, bound uint64, fits func(*entry.Record) error) (entry.Handle, error) {
	value, head, err := r.openLarge(offset, bound)
	if err == nil {
		err = fits(&value.rec.Record)
	}
	if err != nil {
		return entry.Handle{}, err
	}
	rec := &value.rec
	// The record gets a frame of its own, behind the records that wait in the buffer.
	if err := v.Flush(); err != nil {
		return entry.Handle{}, err
	}
	if r.keys == nil {
		entry.UnplaceRecord(head, r.id, offset)
	}
	if r.stamp != 0 {
		entry.SetVersion(head, r.stamp)
	}
	h, err := v.appendLarge(head, rec.Size, value, rec.ValueSize)
	// What can't be read is no failure of this segment: the next frame overwrites what
	// was written of this one.
	if value.err == nil {
		v.stopped = err
	}
	return h, err
}

// largestHead is more than the greatest length in bytes of all that comes before the value of a
// record: the key, an extension of 64 KiB, and half a megabyte of tags.
const largestHead = 2 << 20

// openLarge begins to read the record at offset, of at most bound bytes, whose value has pieces.
// head is a verified copy of what comes before the value. In an encrypted segment it is the
// plain form, with zeros for checksums.
func (r *Reader) openLarge(offset int64, bound uint64) (value *pieces, head []byte, err error) {
	size, err := r.checkPlace(offset, bound)
	if err != nil {
		return nil, nil, err
	}
	b := make([]byte, min(size, largestHead))
	if err := r.file.ReadFull(b, offset); err != nil {
		return nil, nil, err
	}
	value = &pieces{r: r, offset: offset}
	if r.keys != nil {
		head, err = value.decryptHead(b, size)
	} else {
		head, err = value.verifyHead(b, size)
	}
	if err != nil {
		err = r.damagedRecord(offset, err)
	}
	return value, head, err
}

// verifyHead begins with the record that b begins with, of at most size bytes.
func (p *pieces) verifyHead(b []byte, size int) (head []byte, err error) {
	if p.rec.Record, err = entry.DecodeHead(b, size); err != nil {
		return nil, err
	}
	// Verified before the first piece is copied: after this the table of checksums can be trusted.
	if !p.rec.VerifyHead(b, p.r.id, p.offset) || !p.rec.VerifyTable(b, p.r.id, p.offset) {
		return nil, fmt.Errorf("%w: a checksum does not match", entry.ErrRecord)
	}
	head = b[:p.rec.UnpaddedSize()-p.rec.ValueSize]
	p.at = p.offset + int64(len(head))
	return head, nil
}

// decryptHead is verifyHead in an encrypted segment. It decrypts b in place.
func (p *pieces) decryptHead(b []byte, size int) (head []byte, err error) {
	// These bytes are not encrypted and not verified yet: compare the lengths before use.
	c, ok := entry.ParseClear(b)
	if !ok || c.Size > int64(size) || c.Head > len(b) {
		return nil, fmt.Errorf("%w: %+v, %d bytes are left", entry.ErrRecord, c, size)
	}
	bare := b[:c.Head-crypt.TagSize]
	if p.rec, err = entry.DecryptHead(bare, b[:c.Head], p.r.keys, p.offset); err != nil {
		return nil, err
	}
	if !p.rec.InPieces() {
		return nil, fmt.Errorf("%w: value of %d bytes has no pieces", entry.ErrRecord, p.rec.ValueSize)
	}
	p.at = p.offset + int64(c.Head)
	return p.rec.AppendPlainHead(nil, bare), nil
}

// pieces reads the value of a record, whole pieces at a time, and verifies or decrypts each.
type pieces struct {
	r      *Reader
	rec    entry.Encrypted // its Record is all there is in a plain segment
	offset int64           // of the record
	at     int64           // where the value begins in the file
	done   int             // bytes read
	err    error           // why no more can be read
	buf    []byte          // in which pieces are decrypted
}

// Read implements io.Reader; b has room for a piece, or for what is left.
func (p *pieces) Read(b []byte) (int, error) {
	n := min(len(b), p.rec.ValueSize-p.done)
	if n == 0 {
		return 0, io.EOF
	}
	at, part := p.at+int64(p.done), b[:n]
	if p.r.keys != nil {
		p.buf = slices.Grow(p.buf[:0], n+crypt.TagSize)
		part = p.buf[:n]
	}
	if p.err = p.r.file.ReadFull(part, at); p.err != nil {
		return 0, p.err
	}
	// In the memory that is written afterwards: what is verified is what is copied.
	if p.r.keys != nil {
		p.err = p.rec.DecryptPieces(part, p.done, p.r.keys, p.offset)
		copy(b, part)
	} else if !p.rec.VerifyPieces(p.done, part) {
		p.err = fmt.Errorf("%w: checksum of the value does not match", entry.ErrRecord)
	}
	if p.err != nil {
		p.err = p.r.damagedRecord(at, p.err)
		return 0, p.err
	}
	p.done += n
	return n, nil
}
