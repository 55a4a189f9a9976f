package segment

import (
	"io"
	"math"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// largeRecord is the length in bytes beyond which a record is copied piece by piece.
// Its key is much shorter, so its value has pieces.
const largeRecord = 4 << 20

// copyLarge is copy for a record of more than largeRecord bytes: head and pieces are
// verified in the memory that they are written from.
func (v *ValueWriter) copyLarge(r *Reader, offset int64, bound uint64, fits func(*entry.Record) error) (entry.Handle, error) {
	head, rec, err := r.head(offset, bound)
	if err == nil {
		err = fits(&rec)
	}
	if err != nil {
		return entry.Handle{}, err
	}
	if err := v.Flush(); err != nil {
		return entry.Handle{}, err
	}
	entry.Unplace(head, r.id, offset)
	if r.stamp != 0 {
		entry.SetVersion(head, r.stamp)
	}
	value := &pieces{r: r, rec: &rec, at: offset + int64(len(head))}
	h, err := v.large(head, rec.Size, value, rec.ValueSize)
	// What can't be read is no failure of this segment: the next frame overwrites what
	// was written of this one.
	if value.err == nil {
		v.stopped = err
	}
	return h, err
}

// head returns what comes before the value of the record at offset, of at most bound
// bytes, in memory of its own, decoded and verified.
func (r *Reader) head(offset int64, bound uint64) ([]byte, entry.Record, error) {
	var rec entry.Record
	end := r.end.Load()
	if offset&7 != 0 || offset < HeaderSize || offset > end {
		return nil, rec, errs.NewCorruption(r.name, offset, "record at this place, the segment ends at %d", end)
	}
	size := int(min(bound, uint64(end-offset), math.MaxInt))
	var first [entry.HeadStart]byte
	if err := r.file.ReadFull(first[:], offset); err != nil {
		return nil, rec, err
	}
	head := make([]byte, entry.HeadBound(first[:], size))
	if err := r.file.ReadFull(head, offset); err != nil {
		return nil, rec, err
	}
	rec, err := entry.DecodeHead(head, size)
	if err != nil {
		return nil, rec, &errs.Corruption{File: r.name, Offset: offset, Reason: "record", Err: err}
	}
	if !rec.VerifyHead(head, r.id, offset) || !rec.VerifyTable(head, r.id, offset) {
		return nil, rec, errs.NewCorruption(r.name, offset, "record: a checksum does not match")
	}
	return head[:rec.HeadSize()], rec, nil
}

// pieces reads the value of a record, whole pieces at a time, and verifies each.
type pieces struct {
	r    *Reader
	rec  *entry.Record
	at   int64 // where the value begins in the file
	done int   // bytes read
	err  error // why no more can be read
}

// Read implements io.Reader; p has room for a piece, or for what is left.
func (p *pieces) Read(b []byte) (int, error) {
	n := min(len(b), p.rec.ValueSize-p.done)
	if n == 0 {
		return 0, io.EOF
	}
	at := p.at + int64(p.done)
	if p.err = p.r.file.ReadFull(b[:n], at); p.err != nil {
		return 0, p.err
	}
	if !p.rec.VerifyPieces(p.done, b[:n]) {
		p.err = errs.NewCorruption(p.r.name, at, "record: checksum of the value does not match")
		return 0, p.err
	}
	p.done += n
	return n, nil
}
