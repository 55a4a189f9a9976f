package frame

import (
	"github.com/brockdb/brock/internal/base/entry"
)

// Records walks over the records of a Group's payload, and knows where in the file those
// with their own checksum or tag are.
type Records struct {
	payload   []byte
	at        int64         // offset in the file of the next record with its own checksum or tag
	version   entry.Version // of the record before
	encrypted bool          // records have their places as in an encrypted file
	bare      bool          // piece tables and values in pieces are not in payload
}

// Walk returns the records of the frame with the header h, whose payload was verified or
// decrypted; it begins at offset of the file, behind the header.
func (h *Header) Walk(payload []byte, offset int64) Records {
	return Records{payload: payload, at: offset, version: h.FirstVersion - 1, encrypted: h.Encrypted, bare: h.Encrypted}
}

// WalkWritten returns the records of one transaction with the version v, whose payload was
// appended to a segment, encrypted or not. Its first record is at offset of the file; see
// At.
func WalkWritten(payload []byte, offset int64, v entry.Version, encrypted bool) Records {
	return Records{payload: payload, at: offset, version: v - 1, encrypted: encrypted}
}

// More reports whether there are more records.
func (r *Records) More() bool { return len(r.payload) > 0 }

// At is where in the file the record is that Next returns next, if that has its own
// checksum or tag; behind the last one it is where the next transaction begins.
func (r *Records) At() int64 { return r.at }

// Next makes rec the next record; there must be More. Its Value is nil if that isn't in the
// payload; ValueSize tells the length.
func (r *Records) Next(rec *entry.Record) (err error) {
	if err = rec.DecodeNext(r.payload, &r.version, r.bare); err != nil {
		return err
	}
	n, inFile := rec.Size, rec.Size
	if r.encrypted {
		// A file offset has no place for short records: they are together behind the others.
		inFile = rec.FileSize(true)
		if r.bare {
			n = rec.BareSize()
		}
	}
	r.payload = r.payload[n:]
	r.at += int64(inFile)
	return nil
}
