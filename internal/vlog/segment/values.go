package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// How a value segment is written: by flushes, collections and spills.

const (
	frameTarget = 256 << 10 // payload from which on a frame is written
	bufferKept  = 1 << 20   // a buffer grown beyond it is given back
	fillFrom    = 1 << 20   // a segment that stays shorter is not filled ahead
)

// ValueWriter writes a value segment: records in the order of Add, each with
// its own checksum. It is used by one goroutine.
type ValueWriter struct {
	w       *Writer
	buf     []byte // the records of the frame being filled
	values  uint64 // bytes of the values added
	placed  int64  // in an encrypted segment: the bytes that the records of buf will take in the file
	closed  bool   // the file is closed
	stopped error  // the first error; all later calls return it
}

// Stats describes a finished segment, or a forwarding table, which has no records.
type Stats struct {
	Number entry.FileNum
	Size   int64           // of the file, to be given to Open as its end
	KeyID  crypt.FileKeyID // names the file's key; zero = it is plain

	ValueBytes uint64 // of the values, as they are stored
	frame.Totals
}

// NewValueWriter creates the value segment number.
func NewValueWriter(c Config, number entry.FileNum) (*ValueWriter, error) {
	w, err := Create(c, Header{Kind: filename.Value, Number: number})
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	return &ValueWriter{w: w}, nil
}

// Add appends e, whose value is e.Value, and returns where it will be. The handle
// may be used when Finish has returned.
func (v *ValueWriter) Add(e *entry.Entry) (entry.Handle, error) {
	if v.stopped != nil {
		return entry.Handle{}, v.stopped
	}
	if len(e.Key) == 0 || len(e.Key) > entry.MaxKey || int64(len(e.Value)) > entry.MaxValue || e.Separated {
		return entry.Handle{}, fmt.Errorf("%w: key of %d bytes, value of %d, separated %v", errs.ErrInvalid, len(e.Key), len(e.Value), e.Separated)
	}
	at := len(v.buf)
	v.buf = entry.AppendRecord(v.buf, e, true)
	return v.finishRecord(at, uint64(len(e.Value)))
}

// finishRecord returns the handle of the last record of buf, which begins at at.
func (v *ValueWriter) finishRecord(at int, length uint64) (entry.Handle, error) {
	h := entry.Handle{Segment: v.w.Number(), Offset: uint64(v.sizeAt(at)), Length: length}
	v.values += length
	if v.w.encrypt != nil {
		v.placed += int64(entry.EncryptedRecordSize(v.buf[at:]))
	}
	if len(v.buf) < frameTarget {
		return h, nil
	}
	return h, v.Flush()
}

// sizeAt is how long the segment is when buf has this length.
func (v *ValueWriter) sizeAt(buffered int) int64 {
	n := int64(buffered)
	if v.w.encrypt != nil {
		// Encrypted records are longer than those in buf, and handles need their places in the
		// file.
		n = v.placed
	}
	return v.w.End() + frame.HeaderSize + n
}

// AddLarge is Add for a value of any length: it copies only pieces of it. Readers may read the
// record at once.
func (v *ValueWriter) AddLarge(e *entry.Entry) (entry.Handle, error) {
	if err := v.Flush(); err != nil {
		return entry.Handle{}, err
	}
	size := entry.RecordSize(e, true)
	h, err := v.appendLarge(entry.AppendHead(nil, e), size, bytes.NewReader(e.Value), len(e.Value))
	// A part of the record may be in the file.
	v.stopped = err
	return h, err
}

// appendLarge writes a record of this size in a frame of its own: its head, and the value
// of n bytes that follows. Nothing waits to be written.
func (v *ValueWriter) appendLarge(head []byte, size int, value io.Reader, n int) (entry.Handle, error) {
	h := entry.Handle{Segment: v.w.Number(), Length: uint64(n)}
	rest := size - len(head) // the value and its padding
	// Records end at multiples of 8.
	padded := io.MultiReader(value, bytes.NewReader(zeros[:rest-n]))
	at, err := v.w.Append(Frame{Content: frame.Content{Kind: frame.Group, Payload: [][]byte{head}, Missing: rest, Value: padded}})
	h.Offset = uint64(at)
	if err == nil {
		v.values += h.Length
	}
	return h, err
}

// Append appends a record with its own checksum, made by entry.AppendRecord and not
// yet placed, whose value has this length. rec may be reused at once.
func (v *ValueWriter) Append(rec []byte, length uint64) (entry.Handle, error) {
	if v.stopped != nil {
		return entry.Handle{}, v.stopped
	}
	at := len(v.buf)
	v.buf = append(v.buf, rec...)
	return v.finishRecord(at, length)
}

// Flush writes what was added so far, so that readers of OpenReader find it. It
// makes nothing durable.
func (v *ValueWriter) Flush() error {
	if v.stopped == nil && len(v.buf) > 0 {
		v.stopped = v.flushRecords()
	}
	return v.stopped
}

// OpenReader opens the segment while it is written; its length must never pass limit.
func (v *ValueWriter) OpenReader(limit int64, noMap bool) (*Reader, error) {
	return v.w.OpenReader(limit, noMap)
}

// CopyRecord appends the record of this encoded length at offset of r, with the version
// that r's stamp gives it. The record must have its own checksum; it is verified in
// the memory from which it is written. If it is damaged, it returns an
// *errs.Corruption that names r's file, and v is as it was.
func (v *ValueWriter) CopyRecord(r *Reader, offset int64, size int) (entry.Handle, error) {
	bound := uint64(size)
	if r.keys != nil {
		bound = entry.EncryptedBound(bound, bound)
	}
	return v.copyRecord(r, offset, bound, func(rec *entry.Record) error {
		if rec.Size != size {
			return errs.NewCorruption(r.name, offset, "record of %d bytes, want %d", rec.Size, size)
		}
		return nil
	})
}

// MoveRecord is CopyRecord of the record at h, which must be that of version at of key.
func (v *ValueWriter) MoveRecord(r *Reader, h entry.Handle, key []byte, at entry.Version) (entry.Handle, error) {
	return v.copyRecord(r, int64(h.Offset), r.recordBound(key, h.Length), func(rec *entry.Record) error {
		return r.checkMatch(rec, int64(h.Offset), h.Length, key, at)
	})
}

// copyRecord appends the record at offset of r, of at most bound bytes, if fits accepts it.
func (v *ValueWriter) copyRecord(r *Reader, offset int64, bound uint64, fits func(*entry.Record) error) (entry.Handle, error) {
	if v.stopped != nil {
		return entry.Handle{}, v.stopped
	}
	if r.keys != nil && v.w.encrypt == nil {
		return v.copyPlain(r, offset, bound, fits)
	}
	// Bound the memory: a long value is copied piece by piece.
	if bound > largeRecord {
		return v.copyLarge(r, offset, bound, fits)
	}
	at := len(v.buf)
	buf, rec, err := r.appendRecord(v.buf, offset, bound)
	if err == nil {
		err = fits(&rec)
	}
	if err != nil {
		return entry.Handle{}, err
	}
	// The value's checksum is kept, only unbound from its old place: damage that
	// happens between reading and writing is found when the copy is read.
	if r.keys == nil {
		entry.UnplaceRecord(buf[at:], r.id, offset)
	}
	clear(buf[at+rec.UnpaddedSize():]) // no checksum covers the zeros behind a record
	if r.stamp != 0 {
		entry.SetVersion(buf[at:], r.stamp)
	}
	v.buf = buf
	return v.finishRecord(at, uint64(len(rec.Value)))
}

// copyPlain is copyRecord from an encrypted segment to a plain one, which only a salvage asks for. A
// decrypted record has no checksums, so it is encoded as a new one.
func (v *ValueWriter) copyPlain(r *Reader, offset int64, bound uint64, fits func(*entry.Record) error) (entry.Handle, error) {
	_, rec, err := r.appendRecord(nil, offset, bound)
	if err == nil {
		err = fits(&rec)
	}
	if err != nil {
		return entry.Handle{}, err
	}
	return v.Add(&entry.Entry{
		Key: rec.Key, Value: rec.Value, Version: r.stamp + rec.Version, Expires: rec.Expires, Kind: rec.Kind, Meta: rec.Meta, Codec: rec.Codec, Raw: rec.Raw,
	})
}

// Size is how long the segment is so far.
func (v *ValueWriter) Size() int64 { return v.sizeAt(len(v.buf)) }

// Finish seals the segment and syncs the file and its directory. The writer is done.
func (v *ValueWriter) Finish() (Stats, error) {
	err := v.Flush()
	if err == nil {
		// A reader takes a value segment without its seal for damaged.
		err = v.w.Seal(0)
	}
	if err == nil {
		err = v.w.Sync()
	}
	// The owner may go on to the next segment, and keep v for Abort: the buffer goes.
	v.closed = true
	v.buf = nil
	// The manifest names the segment after this, so its bytes and its name must be durable. A crash
	// before leaves a file that nobody names, which the next Open removes.
	if err = errors.Join(err, v.w.Close()); err == nil {
		err = v.w.cfg.FS.SyncDir(v.w.cfg.Dir)
	}
	v.stopped = errs.ErrClosed
	if err != nil {
		return Stats{}, fmt.Errorf("finish segment %s: %w", v.w.Name(), err)
	}
	return Stats{Number: v.w.Number(), Size: v.w.End(), KeyID: v.w.KeyID(), ValueBytes: v.values, Totals: v.w.at.Totals}, nil
}

// Number is the segment's number.
func (v *ValueWriter) Number() entry.FileNum { return v.w.Number() }

// Close closes the file as it is, without its end, unless it is closed already.
func (v *ValueWriter) Close() error {
	v.stopped = errs.ErrClosed
	if v.closed {
		return nil
	}
	v.closed = true
	return v.w.Close()
}

// Abort closes and removes the segment. It may follow Finish, if the finished
// segment was not opened.
func (v *ValueWriter) Abort() error {
	return errors.Join(v.Close(), v.w.cfg.FS.Remove(v.w.path))
}

// flushRecords writes what is in buf as one frame.
func (v *ValueWriter) flushRecords() error {
	f := Frame{Content: frame.Content{Kind: frame.Group, Payload: [][]byte{v.buf}}}
	// Blocks are filled before they are written piece by piece.
	if end := v.Size(); end >= fillFrom {
		f.Ahead = (end + pageio.BlockSize - 1) / pageio.BlockSize * pageio.BlockSize
	}
	if _, err := v.w.Append(f); err != nil {
		return err
	}
	v.placed = 0
	if v.buf = v.buf[:0]; cap(v.buf) > bufferKept {
		v.buf = nil
	}
	return nil
}
