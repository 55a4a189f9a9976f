package segment

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// largeRecord is the length in bytes beyond which a record is copied piece by piece.
// Its key is much shorter, so its value has pieces.
const largeRecord = 4 << 20

// copyLarge is copy for a record of more than largeRecord bytes: head and pieces are
// verified, or decrypted, in the memory that they are written from.
func (v *ValueWriter) copyLarge(r *Reader, offset int64, bound uint64, fits func(*entry.Record) error) (entry.Handle, error) {
	value, head, err := r.large(offset, bound)
	if err == nil {
		err = fits(&value.rec)
	}
	// From encrypted to plain: the plain head has checksums of the pieces, which nobody has
	// computed yet.
	if err == nil && r.keys != nil && v.w.encrypt == nil {
		err = value.setChecksums(head)
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
		entry.Unplace(head, r.id, offset)
	}
	if r.stamp != 0 {
		entry.SetVersion(head, r.stamp)
	}
	h, err := v.large(head, rec.Size, value, rec.ValueSize)
	// What can't be read is no failure of this segment: the next frame overwrites what
	// was written of this one.
	if value.err == nil {
		v.stopped = err
	}
	return h, err
}

// large begins to read the record at offset, of at most bound bytes, whose value has pieces.
// head is a verified copy of what comes before the value. In an encrypted segment it is the
// plain form, with zeros for checksums.
func (r *Reader) large(offset int64, bound uint64) (value *pieces, head []byte, err error) {
	end := r.end.Load()
	if offset&7 != 0 || offset < HeaderSize || offset > end {
		return nil, nil, errs.NewCorruption(r.name, offset, "record at this place, the segment ends at %d", end)
	}
	// The offset may come from a damaged file: read nothing behind the end.
	size := int(min(bound, uint64(end-offset), math.MaxInt))
	value = &pieces{r: r, offset: offset}
	if r.keys != nil {
		head, err = r.encryptedHead(value, size)
	} else {
		head, err = r.plainHead(value, size)
	}
	return value, head, err
}

// plainHead reads the head of a record of at most size bytes.
func (r *Reader) plainHead(p *pieces, size int) (head []byte, err error) {
	var first [entry.HeadStart]byte
	if err := r.file.ReadFull(first[:], p.offset); err != nil {
		return nil, err
	}
	head = make([]byte, entry.HeadBound(first[:], size))
	if err := r.file.ReadFull(head, p.offset); err != nil {
		return nil, err
	}
	if p.rec, err = entry.DecodeHead(head, size); err != nil {
		return nil, r.damagedRecord(p.offset, err)
	}
	// Verified before the first piece is copied: after this the table of checksums can be trusted.
	if !p.rec.VerifyHead(head, r.id, p.offset) || !p.rec.VerifyTable(head, r.id, p.offset) {
		return nil, errs.NewCorruption(r.name, p.offset, "record: a checksum does not match")
	}
	head = head[:p.rec.HeadSize()]
	p.at = p.offset + int64(len(head))
	return head, nil
}

// encryptedHead is plainHead in an encrypted segment.
func (r *Reader) encryptedHead(p *pieces, size int) (head []byte, err error) {
	var first [8]byte
	if err := r.file.ReadFull(first[:], p.offset); err != nil {
		return nil, err
	}
	// These bytes are not encrypted and not verified yet: compare the lengths before use.
	c, ok := entry.ParseClear(first[:])
	if !ok || c.Size > int64(size) {
		return nil, r.damagedRecord(p.offset, fmt.Errorf("%w: %+v, %d bytes are left", entry.ErrRecord, c, size))
	}
	raw := make([]byte, c.Head)
	if err := r.file.ReadFull(raw, p.offset); err != nil {
		return nil, err
	}
	bare := raw[:c.Head-crypt.TagSize]
	if p.encrypted, err = entry.DecryptHead(bare, raw, r.keys, p.offset); err == nil && !p.encrypted.InPieces() {
		err = fmt.Errorf("%w: value of %d bytes has no pieces", entry.ErrRecord, p.encrypted.ValueSize)
	}
	if err == nil {
		head = p.encrypted.AppendHead(nil, bare)
		p.rec, err = entry.DecodeHead(head, p.encrypted.Size)
	}
	if err != nil {
		return nil, r.damagedRecord(p.offset, err)
	}
	p.at = p.offset + int64(c.Head)
	return head, nil
}

// pieces reads the value of a record, whole pieces at a time, and verifies or decrypts each.
type pieces struct {
	r      *Reader
	rec    entry.Record
	offset int64 // of the record
	at     int64 // where the value begins in the file
	done   int   // bytes read
	err    error // why no more can be read

	encrypted entry.Encrypted // the record, if it is
	buf       []byte          // in which its pieces are decrypted
}

// Read implements io.Reader; p has room for a piece, or for what is left.
func (p *pieces) Read(b []byte) (int, error) {
	n := min(len(b), p.rec.ValueSize-p.done)
	if n == 0 {
		return 0, io.EOF
	}
	if p.r.keys != nil {
		p.err = p.decryptPiece(b[:n])
	} else {
		p.err = p.verifyPiece(b[:n])
	}
	if p.err != nil {
		return 0, p.err
	}
	p.done += n
	return n, nil
}

func (p *pieces) verifyPiece(b []byte) error {
	at := p.at + int64(p.done)
	if err := p.r.file.ReadFull(b, at); err != nil {
		return err
	}
	// In the memory that is written afterwards: what is verified is what is copied.
	if !p.rec.VerifyPieces(p.done, b) {
		return errs.NewCorruption(p.r.name, at, "record: checksum of the value does not match")
	}
	return nil
}

func (p *pieces) decryptPiece(b []byte) error {
	at := p.at + int64(p.done)
	p.buf = slices.Grow(p.buf[:0], len(b)+crypt.TagSize)[:len(b)]
	if err := p.r.file.ReadFull(p.buf, at); err != nil {
		return err
	}
	if err := p.encrypted.DecryptPieces(p.buf, p.done, p.r.keys, p.offset); err != nil {
		return p.r.damagedRecord(at, err)
	}
	copy(b, p.buf)
	return nil
}

// setChecksums reads the value once more, to set the checksums in the head of a record that is
// written plain.
func (p *pieces) setChecksums(head []byte) error {
	var sums []uint32
	// A copy, so that p itself still begins at the first piece when the value is written.
	first := *p
	for part := make([]byte, entry.PieceSize); ; {
		n, err := first.Read(part)
		if err == io.EOF {
			entry.PutTable(head, sums)
			return nil
		}
		if err != nil {
			return err
		}
		sums = append(sums, checksum.Plain(part[:n]))
	}
}
