package segment

import (
	"fmt"
	"math"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// How a record is read to memory of the reader's own, plain or encrypted. What is read of an
// encrypted segment is decrypted there, which proves it. So nothing of it is remembered as verified.

// checkPlace checks an offset that may come from a damaged file, and returns how many bytes are
// read of the record there, which has at most bound.
func (r *Reader) checkPlace(off int64, bound uint64) (n int, err error) {
	end := r.end.Load()
	if off&7 != 0 || off < HeaderSize || off > end {
		return 0, errs.NewCorruption(r.name, off, "record at this place, the segment ends at %d", end)
	}
	// The last record may be shorter than the bound; nothing behind the end is a record.
	if bound = min(bound, uint64(end-off)); bound > math.MaxInt-crypt.TagSize {
		return 0, fmt.Errorf("%w: %s: record of %d bytes", errs.ErrUnsupported, r.name, bound)
	}
	return int(bound), nil
}

// openRecord verifies the record at off, which was read to raw, perhaps with more behind it. In
// an encrypted segment raw has 16 bytes of capacity behind; plain is the record in its plain form,
// with zeros for its checksums.
func (r *Reader) openRecord(raw []byte, off int64) (plain []byte, rec entry.Record, err error) {
	if r.keys != nil {
		if raw, err = entry.DecryptRecord(raw, r.keys, off); err != nil {
			return nil, rec, r.damagedRecord(off, err)
		}
	}
	if rec, err = entry.DecodeRecord(raw); err != nil {
		return nil, rec, r.damagedRecord(off, err)
	}
	if r.keys == nil {
		err = r.verifyRecord(&rec, raw, off)
	}
	return raw[:rec.Size], rec, err
}

// damagedRecord reports a record that can't be decoded or decrypted.
func (r *Reader) damagedRecord(off int64, err error) error {
	return &errs.Corruption{File: r.name, Offset: off, Reason: "record", Err: err}
}

// ValueOf returns the value of rec, which Scan has found at off: one in pieces of an
// encrypted segment is read now.
func (r *Reader) ValueOf(off int64, rec *entry.Record) (entry.Stored, error) {
	if rec.Value != nil || rec.ValueSize == 0 {
		return rec.Stored(), nil
	}
	return r.Stored(entry.Handle{Offset: uint64(off), Length: uint64(rec.ValueSize)}, rec.Key, r.stamp+rec.Version)
}
