package segment

import (
	"fmt"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// What is read of an encrypted segment is copied to memory of its own and decrypted there,
// which proves it. So nothing of it is remembered as verified.

// decrypted is StoredIn in an encrypted segment, for a handle that was checked.
func (r *Reader) decrypted(dst []byte, from Lender, h entry.Handle, key []byte, v entry.Version) (value entry.Stored, err error) {
	off := int64(h.Offset)
	bound := min(r.recordBound(key, h.Length), uint64(r.end.Load())-h.Offset)
	if bound > math.MaxInt-crypt.TagSize {
		return value, fmt.Errorf("%w: %s: value of %d bytes", errs.ErrUnsupported, r.name, h.Length)
	}
	m := recordMemory(dst, from, h.Length, int(bound)+crypt.TagSize)
	defer m.done()
	raw := m.record[:bound]
	if err := r.readTo(raw, off); err != nil {
		return value, err
	}
	plain, err := entry.Decrypt(raw, r.keys, off)
	if err != nil {
		return value, r.damagedRecord(off, err)
	}
	value, err = r.decodeRecord(plain, off, h.Length, key, v, false)
	return m.locateValue(dst, value), err
}

// readTo fills p with the bytes at off: from the mapping if these pages are known to be in
// memory, else by a read.
func (r *Reader) readTo(p []byte, off int64) (err error) {
	data := r.file.Mapped()
	if data == nil || !r.file.Known(off, len(p)) {
		return r.file.ReadCold(p, off)
	}
	defer pageio.Guard(pageio.Arm(), &err, r.name)
	copy(p, data[off:])
	return nil
}

// damagedRecord reports a record that can't be decoded or decrypted.
func (r *Reader) damagedRecord(off int64, err error) error {
	return &errs.Corruption{File: r.name, Offset: off, Reason: "record", Err: err}
}

// appendDecrypted decrypts the record that dst has from at on, perhaps with more behind it. It
// was read at offset of the file. Its plain form takes its place, and ends the result.
func (r *Reader) appendDecrypted(dst []byte, at int, offset int64) ([]byte, entry.Record, error) {
	dst = slices.Grow(dst, crypt.TagSize)
	plain, err := entry.Decrypt(dst[at:], r.keys, offset)
	if err != nil {
		return dst, entry.Record{}, r.damagedRecord(offset, err)
	}
	dst = dst[:at+copy(dst[at:cap(dst)], plain)]
	rec, err := entry.DecodeRecord(dst[at:])
	if err != nil {
		return dst, rec, r.damagedRecord(offset, err)
	}
	return dst, rec, nil
}

// ValueOf returns the value of rec, which Scan has found at off: one in pieces of an
// encrypted segment is read now.
func (r *Reader) ValueOf(off int64, rec *entry.Record) (entry.Stored, error) {
	if rec.Value != nil || rec.ValueSize == 0 {
		return rec.Stored(), nil
	}
	return r.Stored(entry.Handle{Offset: uint64(off), Length: uint64(rec.ValueSize)}, rec.Key, r.stamp+rec.Version)
}
